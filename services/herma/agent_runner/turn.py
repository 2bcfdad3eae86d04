"""One attempt at one turn: the fold, as a loop.

    while the ledger says what is next: do it, append its outcome, ask again

Nothing that matters lives only here.  When the lease is lost the attempt ends without a write; when
the runner drains, it gives the lease back at the next step boundary; another runner folds on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from herma.agent_runner import wire
from herma.agent_runner.authority import Authority
from herma.agent_runner.call_step import CallStep
from herma.agent_runner.domain.fold import CallModel, End, RunCalls, next_step
from herma.agent_runner.domain.ledger import Call, CallState, Ledger
from herma.agent_runner.domain.provider import FailureClass, ProviderError
from herma.agent_runner.domain.tool import ToolRegistry
from herma.agent_runner.journal import Journal
from herma.agent_runner.lease_keeper import LeaseKeeper
from herma.agent_runner.model_step import Answered, ModelStep
from herma.agent_runner.opening_step import OpeningStep
from herma.common.errors import DeadlineExceeded, HermaError, LeaseLost, Unavailable
from herma.common.logs import logger

_log = logger(__name__)
_Result = TypeVar("_Result")


class Interrupted(Exception):
    """The turn was asked to stop."""


class TurnAttempt:
    """Folds one turn under one lease."""

    def __init__(
        self,
        ledger: Ledger,
        opening: OpeningStep,
        registry: ToolRegistry,
        model: ModelStep,
        calls: CallStep,
        journal: Journal,
        keeper: LeaseKeeper,
        authority: Authority,
        draining: asyncio.Event,
    ) -> None:
        self._ledger = ledger
        self._opening = opening
        self._registry = registry
        self._model = model
        self._calls = calls
        self._journal = journal
        self._keeper = keeper
        self._authority = authority
        self._draining = draining

    async def run(self) -> str:
        """Folds until the turn ends, the lease is lost, or the runner drains.

        Returns:
            The exit reason, `lease_lost`, or `handed_over`.
        """
        try:
            return await self._fold()
        except LeaseLost:
            return "lease_lost"
        except BaseExceptionGroup as group:
            if group.subgroup(LeaseLost) is not None:
                return "lease_lost"
            raise

    async def _fold(self) -> str:
        while True:
            if self._keeper.interrupted.is_set():
                self._ledger = replace(self._ledger, interrupt_requested=True)
            step = next_step(self._ledger)
            if isinstance(step, End):
                return await self._end(step)
            if self._draining.is_set():
                return await self._hand_over()
            try:
                if isinstance(step, CallModel):
                    end = await self._ask_model()
                else:
                    end = await self._run_calls(step)
            except Interrupted:
                continue
            except (HermaError, BaseExceptionGroup) as error:
                end = _failure(error)
            if end is not None:
                return end.exit_reason if end.state == "completed" else await self._end(end)

    async def _ask_model(self) -> End | None:
        opening = await self._interruptible(self._opening.prepare(self._ledger))
        if self._ledger.is_trusted:
            self._ledger = self._ledger.with_opening(opening.system_prompt, opening.context)
        try:
            answered = await self._interruptible(
                self._model.ask(self._ledger, opening, self._registry.definitions)
            )
        except ProviderError as error:
            too_long = error.failure is FailureClass.CONTEXT
            reason = "context_overflow" if too_long else "provider_exhausted"
            return End("failed", reason, error.message)
        return await self._append_answer(answered)

    async def _append_answer(self, answered: Answered) -> End | None:
        answer = answered.answer
        operations = [wire.complete_message(answered.message_id, answer)]
        if not answer.calls:
            # The answer and the end of the turn are one step, so that neither is without the other.
            end = End("completed", "final_answer")
            await self._journal.append(operations, wire.finish(end.state, end.exit_reason, ""))
            return end
        response = await self._journal.append(operations)
        calls = [
            Call(call_id, wanted.tool, wanted.arguments, CallState.PROPOSED)
            for call_id, wanted in zip(response.call_ids, answer.calls, strict=True)
        ]
        self._ledger = self._ledger.with_answer(answer.content, calls)
        return None

    async def _run_calls(self, step: RunCalls) -> End | None:
        try:
            results = await self._interruptible(self._calls.run(step.calls))
        except Interrupted:
            await self._calls.kill(step.calls)
            raise
        self._ledger = self._ledger.with_results(results)
        return None

    async def _interruptible(self, work: Awaitable[_Result]) -> _Result:
        """Waits for work, giving it up when the turn is interrupted or the lease lost.

        Raises:
            Interrupted: when the turn was asked to stop.
            LeaseLost: when the lease is lost.
        """
        task = asyncio.ensure_future(work)
        watchers = [
            asyncio.ensure_future(self._keeper.interrupted.wait()),
            asyncio.ensure_future(self._keeper.lost.wait()),
        ]
        try:
            await asyncio.wait([task, *watchers], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if self._keeper.is_lost:
                raise LeaseLost()
            raise Interrupted
        finally:
            for pending in (task, *watchers):
                pending.cancel()

    async def _end(self, end: End) -> str:
        await self._journal.append((), wire.finish(end.state, end.exit_reason, end.error))
        return end.exit_reason

    async def _hand_over(self) -> str:
        try:
            await self._authority.release(self._keeper.turn_token, "drain")
        except HermaError as error:
            _log.warning("the lease was not given back; it will lapse", reason=error.reason)
        self._keeper.give_up()
        return "handed_over"


def _failure(error: HermaError | BaseExceptionGroup[BaseException]) -> End:
    """How a turn ends whose step was refused for good.

    Raises:
        LeaseLost: when that is what happened.
        BaseExceptionGroup: when something unforeseen happened.
    """
    errors = _leaves(error)
    for leaf in errors:
        if isinstance(leaf, LeaseLost):
            raise leaf
    for leaf in errors:
        if isinstance(leaf, (Unavailable, DeadlineExceeded)):
            return End("failed", "sandbox_unavailable", "The sandbox could not be reached.")
    known = [leaf for leaf in errors if isinstance(leaf, HermaError)]
    if len(known) == len(errors):
        return End("failed", "persistence_failed", known[0].message)
    raise error


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
