"""Where a conversation goes on: after a turn, whatever was said after it elsewhere.

Invariant: a turn's ended past never changes, so every continuation after it reads the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from herma.common.errors import InvalidArgument
from herma.session_authority.domain.new_session import (
    MAX_HISTORY,
    MAX_HISTORY_BYTES,
    NewSession,
    check_new_session,
)


@dataclass(frozen=True, slots=True)
class Continuation:
    """After which turn, and in what kind of session.

    Attributes:
        profile: The wanted profile's name; empty for the session's.
        instructions: The wanted ones; empty for the session's.
    """

    turn_id: UUID
    profile: str = ""
    instructions: str = ""

    @property
    def parts(self) -> list[str]:
        """All of it as text, for a digest."""
        return [str(self.turn_id), self.profile, self.instructions]

    def new_session(self, profile: str, instructions: str) -> NewSession:
        """The session to make when the turn's own, which has these, will not do."""
        return NewSession(self.profile or profile, "", "", self.instructions or instructions)

    def fits(self, profile: str, instructions: str) -> bool:
        """Whether a session that has these is as wanted."""
        return self.profile in ("", profile) and self.instructions in ("", instructions)


def check_continuation(after: Continuation) -> None:
    """Refuses names that are no names, and instructions that cannot be stored.

    Raises:
        InvalidArgument: naming `profile` or `instructions`.
    """
    check_new_session(NewSession(after.profile, "", "", after.instructions))


def check_past(messages: int, size: int) -> None:
    """Refuses a transcript that is larger than what may be imported.

    Args:
        size: In bytes.

    Raises:
        InvalidArgument: naming `continuation`.
    """
    if messages > MAX_HISTORY or size > MAX_HISTORY_BYTES:
        limit = f"at most {MAX_HISTORY} messages and {MAX_HISTORY_BYTES} bytes can be taken over"
        raise InvalidArgument("the transcript is too large", fields={"continuation": limit})
