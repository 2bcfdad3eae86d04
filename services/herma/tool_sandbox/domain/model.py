"""Sandboxes as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class SandboxObject:
    """What an engine has for a sandbox.  `object_id` is new for each container; `pid` is the host's."""

    sandbox_id: str
    object_id: str
    running: bool
    pid: int
    uid: int


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """What tool-sandbox knows of a session's sandbox.

    The record precedes the object: an object without a record is an orphan, a record whose object is
    gone is respawned on next use.
    """

    id: UUID
    tenant_id: UUID
    session_id: UUID
    workspace_id: UUID
    epoch: int
    secret: str
    # Of the sandboxd that was last spoken to; empty before.
    instance: str
    # The turn for which what older turns left running was killed.
    settled_turn_id: UUID | None


class Engine(Protocol):
    """What makes and removes sandboxes: a container engine behind the broker."""

    async def create(self, sandbox_id: str, workspace_id: str) -> SandboxObject:
        """Creates and starts, or answers the one that runs.

        Raises:
            SandboxUnavailable: when the engine does not answer or the image is missing.
        """
        ...

    async def inspect(self, sandbox_id: str) -> SandboxObject | None:
        """How it stands; None when there is none."""
        ...

    async def remove(self, sandbox_id: str) -> None:
        """Removes it; its workspace stays.  Harmless when gone."""
        ...

    async def objects(self) -> list[SandboxObject]:
        """All of this deployment."""
        ...
