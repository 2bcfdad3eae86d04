"""A session's ledger as the fold sees it: values, and how an appended step changes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class CallState(StrEnum):
    """Where a call stands."""

    PROPOSED = "proposed"
    ALLOWED = "allowed"
    DENIED = "denied"
    AWAITING = "awaiting"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    OUTCOME_UNKNOWN = "outcome_unknown"

    @property
    def is_closed(self) -> bool:
        """Its result is in the transcript."""
        return self in (CallState.COMPLETED, CallState.CANCELLED, CallState.OUTCOME_UNKNOWN)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call.  `instance` is the sandbox incarnation that it was started on."""

    id: str
    tool: str
    arguments: str
    state: CallState
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a transcript."""

    role: str
    content: str
    turn_id: str
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    # Of a user message: what the model reads beside it; None when nothing was decided yet.
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in the provider's own count."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a tool answered.  `details` are public facts for events: exit code, sizes."""

    content: str
    is_error: bool = False
    state: CallState = CallState.COMPLETED
    details: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that the next step follows from."""

    turn_id: str
    messages: Sequence[Message]
    system_prompt: str
    iterations: int
    max_iterations: int
    interrupt_requested: bool
    # Of the turn's input: an untrusted turn gets no notes and no recall.
    is_trusted: bool = True

    @property
    def input(self) -> Message | None:
        """The user message that the turn works on."""
        return next(
            (m for m in reversed(self.messages) if m.role == "user" and m.turn_id == self.turn_id), None
        )

    def with_opening(self, system_prompt: str, context: str | None) -> Ledger:
        """After what the turn's requests are built from was appended."""
        found = self.input
        if context is None or found is None:
            return replace(self, system_prompt=system_prompt)
        messages = [
            replace(message, context=context) if message is found else message
            for message in self.messages
        ]
        return replace(self, system_prompt=system_prompt, messages=tuple(messages))

    def with_answer(self, content: str, calls: Sequence[Call]) -> Ledger:
        """After the model's answer was appended."""
        message = Message("assistant", content, self.turn_id, tuple(calls))
        return replace(self, messages=(*self.messages, message), iterations=self.iterations + 1)

    def with_call(self, call_id: str, **changes: Any) -> Ledger:
        """After a call's step was appended."""
        messages = [
            replace(
                message,
                calls=tuple(
                    replace(call, **changes) if call.id == call_id else call for call in message.calls
                ),
            )
            if message.calls
            else message
            for message in self.messages
        ]
        return replace(self, messages=tuple(messages))

    def with_results(self, results: dict[str, CallResult]) -> Ledger:
        """After all results of the newest message were appended: rendered in the order of its calls."""
        ledger = self
        for call_id, result in results.items():
            ledger = ledger.with_call(call_id, state=result.state)
        newest = next(message for message in reversed(ledger.messages) if message.calls)
        # Some results may have been appended by an earlier attempt, and lie behind the message.
        index = max(i for i, message in enumerate(ledger.messages) if message is newest)
        known = {message.call_id: message for message in ledger.messages[index + 1 :]}
        for call_id, result in results.items():
            known[call_id] = Message("tool", result.content, self.turn_id, call_id=call_id)
        tail = [known[call.id] for call in newest.calls if call.id in known]
        return replace(ledger, messages=(*ledger.messages[: index + 1], *tail))
