"""What a turn's requests are built from beyond the transcript, and whether memory must be asked for it.

Pure.  Memory is asked at most once in a turn, by the first attempt that needs it, before the first model
call; what came of it is recorded before the request is sent, so that every later attempt finds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from herma.agent_runner.domain.ledger import Ledger
from herma.agent_runner.domain.trivial import is_trivial

# Characters of a prompt that memory is asked with: a long one says what it is about at its ends.
_HEAD, _TAIL = 4_000, 4_000


@dataclass(frozen=True, slots=True)
class Opening:
    """Recorded with the first model call.

    Attributes:
        system_prompt: What the requests begin with.
        is_new: The session has no such prompt yet: it is recorded.
        is_provisional: The prompt holds for this turn alone, because memory did not answer: the notes
            must not be missing from the session for good.
        context: Goes beside the user's message; None leaves what is recorded.
        recalled: How many memories are in it.
        failed: Memory was asked and did not answer.
    """

    system_prompt: str
    is_new: bool = False
    is_provisional: bool = False
    context: str | None = None
    recalled: int = 0
    failed: bool = False

    @property
    def recorded_prompt(self) -> str:
        """The prompt if it must be recorded, else empty."""
        return self.system_prompt if self.is_new else ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to ask memory for; `query` is empty when no facts are wanted."""

    query: str
    with_notes: bool

    @property
    def is_nothing(self) -> bool:
        """Memory need not be asked."""
        return not self.query and not self.with_notes


def wanted_of(ledger: Ledger) -> Wanted:
    """What the turn needs of memory."""
    if not ledger.is_trusted:
        return Wanted("", with_notes=False)
    found = ledger.input
    undecided = found is not None and found.context is None and ledger.iterations == 0
    query = "" if found is None or not undecided or is_trivial(found.content) else found.content
    if len(query) > _HEAD + _TAIL:
        query = f"{query[:_HEAD]}\n{query[-_TAIL:]}"
    return Wanted(query, with_notes=not ledger.system_prompt)
