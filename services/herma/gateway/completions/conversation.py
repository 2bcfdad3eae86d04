"""What a request says, in Herma's words: instructions, what was said before, and what is said now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from herma.common.errors import InvalidArgument
from herma.gateway.completions.bodies import ChatCompletionRequest, ChatMessage

ENTRANCE = "openai"

_INSTRUCTING = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Utterance:
    """An earlier message.  `role` is `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request as Herma reads it.

    Attributes:
        session_id: The session that the request names; empty for none.
        session_key: The key of the user's session with this profile; empty for none.
    """

    profile: str
    instructions: str
    earlier: Sequence[Utterance]
    content: str
    session_id: str
    session_key: str

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 over all of it: how the answer is to be sent is no part of what is asked."""
        said = [[entry.role, entry.content] for entry in self.earlier]
        parts = [self.profile, self.instructions, said, self.content, self.session_id, self.session_key]
        return hashlib.sha256(json.dumps(parts).encode()).digest()


def read_conversation(body: ChatCompletionRequest, session_id: str) -> Conversation:
    """Reads a request.

    Args:
        session_id: From the header `X-Herma-Session`; it wins over `user`.

    Raises:
        InvalidArgument: naming the message that Herma cannot take.
    """
    earlier: list[Utterance] = []
    instructions: list[str] = []
    for number, message in enumerate(body.messages):
        _check(message, number)
        text = message.content or message.refusal
        if message.role in _INSTRUCTING:
            instructions.append(text)
        elif text or message.role == "user":
            # An answer that says nothing is left out: model servers refuse it.
            earlier.append(Utterance(message.role, text))
    last = len(body.messages) - 1
    if body.messages[last].role != "user":
        raise _wrong(f"messages.{last}.role", "the last message must be the user's")
    if not earlier[-1].content.strip():
        raise _wrong(f"messages.{last}.content", "must not be empty")
    user = "" if session_id else body.user or ""
    return Conversation(
        profile=body.model,
        instructions="\n\n".join(text for text in instructions if text),
        earlier=earlier[:-1],
        content=earlier[-1].content,
        session_id=session_id,
        # The profile's name is quoted so that no two pairs of profile and user make the same key.
        session_key=f"{quote(body.model, safe='')}:{user}" if user else "",
    )


def _check(message: ChatMessage, number: int) -> None:
    text = "calls of tools that ran elsewhere cannot be imported"
    if message.role in ("tool", "function"):
        raise _wrong(f"messages.{number}.role", text)
    for name in ("tool_calls", "function_call"):
        if getattr(message, name):
            raise _wrong(f"messages.{number}.{name}", text)


def _wrong(field: str, text: str) -> InvalidArgument:
    return InvalidArgument("the request cannot be carried out", fields={field: text})
