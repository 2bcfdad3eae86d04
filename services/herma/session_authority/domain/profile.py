"""What a profile says: the agent that a tenant defines.

A version never changes and turns pin one, so a spec is stored whole, with its defaults spelled out: a
later release with other defaults changes no version that there is.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from herma.common.errors import InvalidArgument
from herma.common.lines import is_label, is_line

MAX_DESCRIPTION = 500
MAX_PERSONA = 20_000
MAX_MODEL = 200
MAX_ITERATIONS = 500
# The built-in tools. The runner's are the same; a test holds the two together.
TOOLS = ("memory", "read_file", "terminal", "write_file")

# A persona of the widest characters, all escaped, and the rest.
_MAX_BYTES = 256 * 1024
_MOST_FIELDS = 32


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain U+0000")
    return text


def _line(text: str) -> str:
    if not is_line(text):
        raise ValueError("must be one line")
    return text


def _known_tools(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set(names) - set(TOOLS))
    if unknown:
        raise ValueError(f"no tool {unknown[0][:100]!r}; the tools are {', '.join(TOOLS)}")
    return tuple(sorted(set(names)))


_Tools: TypeAlias = Annotated[tuple[str, ...], Field(max_length=100), AfterValidator(_known_tools)]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class ProfileSpec:
    """An agent's identity.

    `persona` is the agent's SOUL, part of its system prompt.  `model` is the name that the provider is
    asked for, empty for the installation's.  `tools` are those that it may use, None for all that there
    are.  `max_iterations` bounds the model calls of one turn.  `access` is who may use the profile:
    everybody of the tenant (`tenant`), or only those with a grant (`granted`); that of the newest version
    holds, whatever a turn pinned.
    """

    description: Annotated[str, Field(max_length=MAX_DESCRIPTION), AfterValidator(_without_nul)] = ""
    persona: Annotated[str, Field(max_length=MAX_PERSONA), AfterValidator(_without_nul)] = ""
    model: Annotated[str, Field(max_length=MAX_MODEL), AfterValidator(_line)] = ""
    tools: _Tools | None = None
    max_iterations: Annotated[int, Field(ge=1, le=MAX_ITERATIONS)] = 50
    access: Literal["tenant", "granted"] = "tenant"

    def to_json(self) -> str:
        """The whole spec as a JSON object: the same text for equal specs."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, sort_keys=True)

    def is_said_by(self, stored: str) -> bool:
        """Whether a stored spec, perhaps of a release with fewer fields, says the same."""
        return bool({**_DEFAULTS, **json.loads(stored)} == json.loads(self.to_json()))


_ADAPTER: TypeAdapter[ProfileSpec] = TypeAdapter(ProfileSpec)
_DEFAULTS: dict[str, Any] = json.loads(ProfileSpec().to_json())


class Outcome(StrEnum):
    """What applying a profile did."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclasses.dataclass(frozen=True, slots=True)
class ProfileVersion:
    """A profile as it is at one version.  `spec` is a JSON object as text."""

    id: UUID
    name: str
    version: int
    spec: str
    created_at: datetime


def parse_spec(text: str | bytes) -> ProfileSpec:
    """Reads a spec from JSON.

    Raises:
        InvalidArgument: naming each field that is unknown or does not fit.
    """
    if len(text) > _MAX_BYTES:
        raise InvalidArgument("the profile is too large", fields={"spec": f"at most {_MAX_BYTES} bytes"})
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError as error:
        items = error.errors(include_input=False, include_url=False, include_context=False)
        fields = {_field(item["loc"]): _complaint(item) for item in items[:_MOST_FIELDS]}
        raise InvalidArgument("the profile is malformed", fields=fields) from error


def _field(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location))[:100] or "spec"


def _complaint(item: Any) -> str:
    if item["type"] == "unexpected_keyword_argument":
        return "is not a known field"
    text: str = item["msg"]
    return text.removeprefix("Value error, ")


def check_profile_name(name: str) -> None:
    """Refuses a name that is no DNS label.

    Raises:
        InvalidArgument: naming `name`.
    """
    if not is_label(name):
        raise InvalidArgument(
            f"{name[:100]!r} is no name for a profile",
            fields={"name": "1 to 63 of a-z, 0-9 and -, not at either end"},
        )
