"""What a response says of its request, kept with its turn.

Invariant: a response says the same whenever it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Particulars:
    """Of one request.

    Attributes:
        has_conversation: It named its session.
    """

    model: str
    background: bool = False
    previous_response_id: str | None = None
    has_conversation: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None

    @property
    def opens(self) -> bool:
        """Whether the response began with nothing of Herma's."""
        return not self.has_conversation and self.previous_response_id is None

    @property
    def memo(self) -> str:
        """As it is kept."""
        kept = {
            "entrance": "responses",
            "model": self.model,
            "background": self.background,
            "previous_response_id": self.previous_response_id,
            "has_conversation": self.has_conversation,
            "metadata": dict(self.metadata),
            "user": self.user,
        }
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def particulars_of(memo: str) -> Particulars | None:
    """What was kept with a turn; None for a turn that came by another entrance."""
    kept = json.loads(memo or "{}")
    if kept.get("entrance") != "responses":
        return None
    return Particulars(
        model=kept["model"],
        background=kept["background"],
        previous_response_id=kept["previous_response_id"],
        has_conversation=kept["has_conversation"],
        metadata=kept["metadata"],
        user=kept["user"],
    )


def elsewhere(model: str) -> Particulars:
    """Of a turn that came by another entrance, in a session of this model's."""
    return Particulars(model=model, has_conversation=True)
