"""A session to be made: its name, and what it begins with.

Invariant: a key with a `:` belongs to an entrance, so what a caller names can never be what an entrance
names for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from herma.common.errors import InvalidArgument
from herma.session_authority.domain.admission import MAX_KEY, MAX_TITLE, check_line

MAX_HISTORY = 2_000
MAX_HISTORY_BYTES = 1024 * 1024
MAX_INSTRUCTIONS_BYTES = 256 * 1024

_ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """An entry of a transcript that was written elsewhere."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """What a session is made from.

    Attributes:
        profile: A profile's name; empty for the tenant's `default`.
        key: As stored, see `session_key`; empty for none.
        instructions: The caller's words for the system prompt.
        history: What was said before, in order.
    """

    profile: str
    key: str
    title: str
    instructions: str = ""
    history: Sequence[ImportedMessage] = ()

    @property
    def parts(self) -> list[str]:
        """All of it as text, for a digest: no two sessions have the same parts."""
        names = [self.profile, self.key, self.title]
        if not self.instructions and not self.history:
            return names
        said = [text for message in self.history for text in (message.role, message.content)]
        return [*names, self.instructions, *said]


def session_key(entrance: str, key: str) -> str:
    """The key as it is stored, in the namespace of the entrance that names the session.

    Raises:
        InvalidArgument: naming `key`, for a caller's own key that looks like an entrance's.
    """
    if not entrance:
        if ":" in key:
            raise InvalidArgument(
                "the key is reserved", fields={"key": "must not contain `:`, which entrances use"}
            )
        return key
    if ":" in entrance or not key:
        raise InvalidArgument("no such entrance", fields={"entrance": "names a session by a key"})
    return f"{entrance}:{key}"


def check_new_session(new: NewSession) -> None:
    """Refuses names that are no names, and imports that are too large or cannot be stored.

    Raises:
        InvalidArgument: naming `title`, `key`, `profile`, `instructions`, `history` or `history[N]`.
    """
    check_line(new.title, "title", MAX_TITLE)
    check_line(new.key, "key", MAX_KEY)
    check_line(new.profile, "profile", MAX_KEY)
    _check_text(new.instructions, "instructions", MAX_INSTRUCTIONS_BYTES)
    if len(new.history) > MAX_HISTORY:
        raise InvalidArgument(
            "the history is too long", fields={"history": f"at most {MAX_HISTORY} messages"}
        )
    left = MAX_HISTORY_BYTES
    for number, message in enumerate(new.history):
        if message.role not in _ROLES:
            raise InvalidArgument(
                "the role cannot be imported", fields={f"history[{number}]": "user or assistant"}
            )
        _check_text(message.content, f"history[{number}]", MAX_HISTORY_BYTES)
        left -= len(message.content.encode())
    if left < 0:
        raise InvalidArgument(
            "the history is too large", fields={"history": f"at most {MAX_HISTORY_BYTES} bytes"}
        )


def _check_text(text: str, field: str, limit: int) -> None:
    if len(text.encode()) > limit:
        raise InvalidArgument(f"{field} is too large", fields={field: f"at most {limit} bytes"})
    if "\0" in text:
        raise InvalidArgument(f"{field} has a NUL", fields={field: "must not contain U+0000"})
