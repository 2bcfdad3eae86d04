"""The profile version that a turn pinned, as far as the fold needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """An agent's identity.

    `model` is empty for the provider's own; `tools` is None for all that there are.
    """

    persona: str = ""
    model: str = ""
    tools: frozenset[str] | None = None
    max_iterations: int = 50
