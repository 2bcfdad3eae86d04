"""The one idea: given the ledger, what is the next step?

Pure.  Crash recovery, hand-over and the ordinary course of a turn all come from asking it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from herma.agent_runner.domain.ledger import Call, Ledger


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model."""


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Bring these calls to a result; some may have been started by an earlier attempt."""

    calls: Sequence[Call]


@dataclass(frozen=True, slots=True)
class End:
    """The turn is over.  `state` is `completed`, `failed` or `interrupted`."""

    state: str
    exit_reason: str
    error: str = ""


NextStep: TypeAlias = CallModel | RunCalls | End


def next_step(ledger: Ledger) -> NextStep:
    """What follows from the ledger."""
    if ledger.interrupt_requested:
        return End("interrupted", "interrupted_by_user")
    newest = next(
        (
            message
            for message in reversed(ledger.messages)
            if message.turn_id == ledger.turn_id and message.role == "assistant"
        ),
        None,
    )
    if newest is not None:
        waiting = [call for call in newest.calls if not call.state.is_closed]
        if waiting:
            return RunCalls(waiting)
        if not newest.calls:
            return End("completed", "final_answer")
    if ledger.iterations >= ledger.max_iterations:
        return End(
            "failed",
            "iteration_budget",
            f"The turn was stopped after {ledger.iterations} model calls.",
        )
    return CallModel()
