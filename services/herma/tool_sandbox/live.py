"""A sandbox that is spoken to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from herma.tool_sandbox.domain.model import SandboxRecord
from herma.tool_sandbox.link import SandboxLink

SECRET_KEY = "herma-sandbox-secret"  # noqa: S105  # the name of the metadata entry


@dataclass(slots=True, eq=False)
class LiveSandbox:
    """A greeted sandboxd and the way to it.  `instance` names the container and the sandboxd in it."""

    record: SandboxRecord
    link: SandboxLink
    stub: Any
    secret: str
    instance: str
    replaced: bool
    used_at: float = 0.0
    # RPCs under way: an idle reaper leaves it alone.
    busy: int = 0
    # Calls that have their span, so that who joins them later makes no second one.
    traced: set[str] = field(default_factory=set)

    @property
    def is_broken(self) -> bool:
        """Its connection is gone."""
        return self.link.broken.is_set()

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What sandboxd wants to see on every call."""
        return ((SECRET_KEY, self.secret),)
