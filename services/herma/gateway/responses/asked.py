"""What a request says, in Herma's words: where it goes on, what was said before, and what is said now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from herma.common.errors import InvalidArgument, NotFound
from herma.gateway.completions.conversation import Utterance
from herma.gateway.responses.bodies import ResponseRequest
from herma.gateway.responses.identity import missing_previous, response_id, turn_of
from herma.gateway.responses.particulars import Particulars

_INSTRUCTING = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as Herma reads it.

    Attributes:
        session_id: The session that the request names; empty for none.
        previous_turn_id: The turn that it goes on from; empty for none.
        earlier: What a new session begins with; empty when the request goes on from anything.
    """

    instructions: str
    earlier: Sequence[Utterance]
    content: str
    session_id: str
    previous_turn_id: str
    particulars: Particulars

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 over all of it: how the answer is to be sent is no part of what is asked."""
        said = [[entry.role, entry.content] for entry in self.earlier]
        places = [self.session_id, self.previous_turn_id]
        parts = ["responses", self.particulars.memo, self.instructions, said, self.content, places]
        return hashlib.sha256(json.dumps(parts).encode()).digest()


def read_request(body: ResponseRequest, session_id: str) -> Asked:
    """Reads a request.

    Args:
        session_id: From the header `X-Herma-Session`.

    Raises:
        InvalidArgument: naming what Herma cannot take.
        NotFound: for a previous response that cannot be one.
    """
    named = session_id or (body.conversation.id if body.conversation else "")
    if body.conversation and session_id not in ("", body.conversation.id):
        raise _wrong("conversation", "names another session than X-Herma-Session")
    previous = _previous_turn(body)
    if named and previous:
        raise _wrong("previous_response_id", "excludes naming a session")
    instructions, said = _read_input(body)
    if named or previous:
        said = [_only_the_users(said)]
    return Asked(
        instructions=instructions,
        earlier=said[:-1],
        content=said[-1].content,
        session_id=named,
        previous_turn_id=previous,
        particulars=Particulars(
            model=body.model,
            background=bool(body.background),
            previous_response_id=response_id(previous) if previous else None,
            has_conversation=bool(named),
            metadata=body.metadata or {},
            user=body.user,
        ),
    )


def _previous_turn(body: ResponseRequest) -> str:
    if body.previous_response_id is None:
        return ""
    try:
        return turn_of(body.previous_response_id)
    except NotFound as error:
        raise missing_previous() from error


def _read_input(body: ResponseRequest) -> tuple[str, list[Utterance]]:
    """The instructions, and what was said; the last of it by the user."""
    instructions = [body.instructions or ""]
    said: list[Utterance] = []
    last = 0
    for number, item in enumerate(body.input):
        if item.type == "reasoning":
            continue
        if item.role is None:
            raise _wrong(f"input.{number}.role", "is missing")
        last = number
        if item.role in _INSTRUCTING:
            instructions.append(item.content)
        elif item.content or item.role == "user":
            # An answer that says nothing is left out: model servers refuse it.
            said.append(Utterance(item.role, item.content))
    if body.input[last].role != "user":
        raise _wrong(f"input.{last}.role", "the last message must be the user's")
    if not said[-1].content.strip():
        raise _wrong(f"input.{last}.content", "must not be empty")
    return "\n\n".join(text for text in instructions if text), said


def _only_the_users(said: Sequence[Utterance]) -> Utterance:
    """What the user adds to a session, as one message: a turn has one input."""
    if any(entry.role != "user" for entry in said):
        raise _wrong("input", "goes on from what Herma keeps, so it may only hold what the user adds")
    return Utterance("user", "\n\n".join(entry.content for entry in said if entry.content))


def _wrong(field: str, text: str) -> InvalidArgument:
    return InvalidArgument("the request cannot be carried out", fields={field: text})
