"""The bodies of profiles.  session-authority checks specs again: its limits are the same, and a test
holds the two together."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from herma.api.profile.v1 import profile_pb2
from herma.gateway.bodies import Line, Whole, Words
from herma.gateway.wire import when

ToolName = Literal["memory", "read_file", "terminal", "write_file"]


class ProfileSpecBody(BaseModel):
    """What a profile says.  What is left out has its default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    description: Words = Field("", max_length=500, description="For people who choose a profile.")
    persona: Words = Field("", max_length=20_000, description="The agent's SOUL: part of its prompt.")
    model: Line = Field("", max_length=200, description="Name of the model; empty for the default.")
    tools: list[ToolName] | None = Field(
        None, max_length=100, description="Tools that the agent may use; null for all."
    )
    max_iterations: Whole = Field(50, ge=1, le=500, description="Model calls of one turn at most.")
    access: Literal["tenant", "granted"] = Field(
        "tenant", description="Who may use it: everybody of the tenant, or only those with a grant."
    )


class StoredSpecBody(ProfileSpecBody):
    """A spec as it is stored, perhaps by a newer release with more fields and tools."""

    model_config = ConfigDict(extra="allow", strict=True)

    tools: list[str] | None = None  # type: ignore[assignment]  # wider than what may be sent


class ProfileBody(BaseModel):
    """A profile at one version."""

    id: str
    name: str
    version: int
    spec: StoredSpecBody
    created_at: datetime | None


class AppliedProfile(ProfileBody):
    """A profile that was applied.  `outcome` is `created`, `updated` or `unchanged`."""

    outcome: str


class ProfilePage(BaseModel):
    """A page of profiles."""

    items: list[ProfileBody]
    next_page_token: str


def profile_fields(profile: profile_pb2.Profile) -> dict[str, Any]:
    """The fields of a `ProfileBody`."""
    return {
        "id": profile.id,
        "name": profile.name,
        "version": profile.version,
        "spec": StoredSpecBody.model_validate_json(profile.spec or b"{}"),
        "created_at": when(profile.created_at),
    }


def spec_text(body: ProfileSpecBody) -> str:
    """The spec as session-authority takes it."""
    return json.dumps(body.model_dump(), ensure_ascii=False)


def outcome_word(outcome: profile_pb2.Outcome.ValueType) -> str:
    """What applying did."""
    return profile_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_").lower()
