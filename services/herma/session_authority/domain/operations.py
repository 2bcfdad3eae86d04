"""What a runner may write in a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from herma.common.errors import InvalidArgument
from herma.session_authority.domain.model import CallState, TurnState, Usage

MAX_OPERATIONS = 256
MAX_CALLS = 64


@dataclass(frozen=True, slots=True)
class BeginMessage:
    """A model call is about to be made.

    `turn_context` is what the turn's requests say beside the user's message; None leaves what is
    recorded.  A provisional prompt holds for this turn alone.
    """

    provider: str
    model: str
    system_prompt: str
    parameters: str
    attempt_context: str
    turn_context: str | None = None
    provisional_prompt: bool = False


@dataclass(frozen=True, slots=True)
class DiscardMessage:
    """A model call came to nothing."""

    message_id: UUID
    reason: str


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call as the model wrote it."""

    provider_call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CompleteMessage:
    """The model's whole answer."""

    message_id: UUID
    content: str
    calls: Sequence[ProposedCall]
    usage: Usage
    finish_reason: str
    response_id: str
    response_model: str


@dataclass(frozen=True, slots=True)
class DecideCall:
    """The policy's verdict."""

    call_id: UUID
    verdict: CallState
    rule: str


@dataclass(frozen=True, slots=True)
class StartCall:
    """The tool starts once this is durable."""

    call_id: UUID
    instance: str


@dataclass(frozen=True, slots=True)
class CompleteCall:
    """The tool's result."""

    call_id: UUID
    state: CallState
    content: str
    is_error: bool
    details: str


@dataclass(frozen=True, slots=True)
class Status:
    """A line for people.  `recalled` is set when it tells how many memories the turn uses."""

    text: str
    recalled: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """How the turn ended."""

    state: TurnState
    exit_reason: str
    error: str


Operation: TypeAlias = (
    BeginMessage | DiscardMessage | CompleteMessage | DecideCall | StartCall | CompleteCall | Status
)


@dataclass(frozen=True, slots=True)
class Step:
    """One append: all of it or nothing."""

    number: int
    digest: bytes
    operations: Sequence[Operation]
    finish: Finish | None


# From which states a call may come into each.
_CALL_FROM: dict[CallState, frozenset[CallState]] = {
    CallState.ALLOWED: frozenset({CallState.PROPOSED, CallState.AWAITING}),
    CallState.DENIED: frozenset({CallState.PROPOSED, CallState.AWAITING}),
    CallState.RUNNING: frozenset({CallState.ALLOWED, CallState.RUNNING}),
    # An invalid or denied call is answered without running.
    CallState.COMPLETED: frozenset(
        {CallState.PROPOSED, CallState.ALLOWED, CallState.DENIED, CallState.RUNNING}
    ),
    CallState.CANCELLED: frozenset(
        {CallState.PROPOSED, CallState.ALLOWED, CallState.AWAITING, CallState.RUNNING}
    ),
    CallState.OUTCOME_UNKNOWN: frozenset({CallState.RUNNING}),
}


def check_step(step: Step) -> None:
    """Refuses a step that no ledger could take.

    Raises:
        InvalidArgument: naming what is wrong.
    """
    if step.number < 1:
        raise InvalidArgument("a step counts from 1", fields={"step": "must be positive"})
    if len(step.digest) != 32:
        raise InvalidArgument("the digest is not SHA-256", fields={"digest": "must be 32 bytes"})
    if not step.operations and step.finish is None:
        raise InvalidArgument("the step is empty", fields={"operations": "at least one"})
    if len(step.operations) > MAX_OPERATIONS:
        raise InvalidArgument("too many operations", fields={"operations": f"at most {MAX_OPERATIONS}"})
    for operation in step.operations:
        if isinstance(operation, CompleteMessage) and len(operation.calls) > MAX_CALLS:
            raise InvalidArgument("too many calls", fields={"calls": f"at most {MAX_CALLS}"})
        if isinstance(operation, DecideCall) and operation.verdict not in (
            CallState.ALLOWED,
            CallState.DENIED,
        ):
            raise InvalidArgument("no such verdict", fields={"verdict": "allowed or denied"})
        if isinstance(operation, CompleteCall) and not operation.state.is_closed:
            raise InvalidArgument("the call is not closed", fields={"state": "must be a closed state"})
    if step.finish is not None and step.finish.state not in (
        TurnState.COMPLETED,
        TurnState.FAILED,
        TurnState.INTERRUPTED,
    ):
        raise InvalidArgument(
            "a turn cannot end so", fields={"finish.state": "completed, failed or interrupted"}
        )


def check_transition(call_id: UUID, current: CallState, wanted: CallState) -> None:
    """Refuses a call's step that its state does not allow.

    Raises:
        InvalidArgument: for an impossible transition.
    """
    if current not in _CALL_FROM.get(wanted, frozenset()):
        raise InvalidArgument(
            f"call {call_id} is {current.value} and cannot become {wanted.value}",
            reason="CALL_STATE_CONFLICT",
        )
