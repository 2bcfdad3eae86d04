"""A runner process: claims turns into its slots, and hands them over when it drains."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC
from uuid import UUID

import structlog
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from herma.agent_runner import wire
from herma.agent_runner.authority import Authority
from herma.agent_runner.call_step import CallStep
from herma.agent_runner.deltas import DeltaStream
from herma.agent_runner.domain.provider import Provider
from herma.agent_runner.domain.tool import ToolRegistry
from herma.agent_runner.journal import Journal
from herma.agent_runner.lease_keeper import LeaseKeeper
from herma.agent_runner.memory import MemoryClient
from herma.agent_runner.model_step import ModelStep
from herma.agent_runner.opening_step import OpeningStep
from herma.agent_runner.sandbox import SandboxClient
from herma.agent_runner.turn import TurnAttempt
from herma.api.lease.v1 import lease_pb2
from herma.common import telemetry
from herma.common.app import Lifecycle
from herma.common.clock import Clock
from herma.common.errors import HermaError
from herma.common.logs import logger

_log = logger(__name__)

_CLAIM_WAIT = 20.0


class Runner:
    """Runs up to `slots` turns at once."""

    def __init__(
        self,
        authority: Authority,
        sandboxes: SandboxClient,
        memory: MemoryClient,
        provider: Provider,
        registry: ToolRegistry,
        clock: Clock,
        new_id: Callable[[], UUID],
        slots: int,
    ) -> None:
        self._authority = authority
        self._deltas = DeltaStream(authority)
        self._sandboxes = sandboxes
        self._memory = memory
        self._provider = provider
        self._registry = registry
        self._clock = clock
        self._new_id = new_id
        self._slots = asyncio.Semaphore(slots)
        self.id = str(new_id())
        self._draining = asyncio.Event()
        self._keepers: dict[str, tuple[int, LeaseKeeper]] = {}
        self._attempts: set[asyncio.Task[None]] = set()
        self._tracer = trace.get_tracer("herma.agent_runner")

    async def run(self, lifecycle: Lifecycle, drain_seconds: float) -> None:
        """Works until asked to stop, then drains."""
        background = [
            asyncio.create_task(self._claim_forever()),
            asyncio.create_task(self._watch_signals()),
            asyncio.create_task(self._deltas.run()),
        ]
        await lifecycle.stopping()
        self._draining.set()
        background[0].cancel()
        if self._attempts:
            _log.info("handing over", turns=len(self._attempts))
            await asyncio.wait(self._attempts, timeout=drain_seconds)
        for task in (*self._attempts, *background):
            task.cancel()
        await asyncio.gather(*self._attempts, *background, return_exceptions=True)

    async def _claim_forever(self) -> None:
        while True:
            await self._slots.acquire()
            try:
                lease = await self._claim()
            except BaseException:
                self._slots.release()
                raise
            task = asyncio.create_task(self._attempt(lease))
            self._attempts.add(task)
            task.add_done_callback(self._attempt_ended)

    def _attempt_ended(self, task: asyncio.Task[None]) -> None:
        self._attempts.discard(task)
        self._slots.release()
        if not task.cancelled() and task.exception() is not None:
            _log.error("an attempt broke", exc_info=task.exception())

    async def _claim(self) -> lease_pb2.Lease:
        request_id = str(self._new_id())
        while True:
            try:
                lease = await self._authority.claim(request_id, self.id, _CLAIM_WAIT)
            except HermaError as error:
                _log.warning("no claim", reason=error.reason)
                await asyncio.sleep(0.2)
                continue
            if lease is not None:
                return lease

    async def _attempt(self, lease: lease_pb2.Lease) -> None:
        structlog.contextvars.bind_contextvars(turn_id=lease.turn.id, session_id=lease.session_id)
        keeper = LeaseKeeper(
            self._authority,
            lease.turn_token,
            lease.ttl.ToMilliseconds() / 1000,
            # A claim is a long poll, so its sending tells nothing. Should the answer have been long
            # under way, the first append is refused, and nothing starts before an append.
            time.monotonic(),
            time.monotonic,
        )
        if lease.interrupt_requested:
            keeper.interrupted.set()
        self._keepers[lease.turn.id] = (lease.epoch, keeper)
        keeping = asyncio.create_task(keeper.run())
        try:
            await self._fold(lease, keeper)
        except asyncio.CancelledError:
            # The drain took too long: the next runner joins what runs.
            await self._give_back(keeper)
            raise
        finally:
            keeping.cancel()
            del self._keepers[lease.turn.id]

    async def _fold(self, lease: lease_pb2.Lease, keeper: LeaseKeeper) -> None:
        profile = wire.profile_of(lease)
        with self._tracer.start_as_current_span(
            f"invoke_agent {lease.profile.name}",
            context=telemetry.context_from(lease.traceparent),
            kind=SpanKind.INTERNAL,
            links=telemetry.link_to(lease.previous_attempt),
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": lease.profile.name,
                "gen_ai.agent.id": lease.profile.id,
                "gen_ai.conversation.id": lease.session_id,
                "gen_ai.request.model": profile.model or self._provider.model,
                "herma.turn.id": lease.turn.id,
                "herma.turn.attempt": lease.turn.attempt,
            },
        ) as span:
            journal = Journal(self._authority, keeper, lease.last_step)
            ledger = wire.ledger_of(lease)
            registry = self._registry.only(profile.tools)
            if not ledger.is_trusted:
                registry = registry.untrusted()
            memory = self._memory.of(lambda: keeper.turn_token)
            calls = CallStep(registry, self._sandboxes, memory, journal, keeper)
            attempt = TurnAttempt(
                ledger=ledger,
                opening=OpeningStep(
                    memory,
                    profile.persona,
                    lease.instructions,
                    self._clock,
                    lease.turn.created_at.ToDatetime(UTC),
                    tools=bool(registry.definitions),
                    with_memory=registry.has_memory,
                ),
                registry=registry,
                model=ModelStep(
                    self._provider,
                    self._deltas,
                    journal,
                    keeper,
                    lease.turn.attempt,
                    lease.session_id,
                    telemetry.traceparent(),
                    profile.model,
                ),
                calls=calls,
                journal=journal,
                keeper=keeper,
                authority=self._authority,
                draining=self._draining,
            )
            reason = await attempt.run()
            span.set_attribute("herma.turn.exit_reason", reason)
            if calls.used_sandbox and reason not in ("lease_lost", "handed_over"):
                await self._end_turn(keeper)
            # Within the span, so that the line names its trace.
            _log.info("attempt ended", exit_reason=reason)

    async def _end_turn(self, keeper: LeaseKeeper) -> None:
        try:
            await self._sandboxes.end_turn(keeper.turn_token)
        except HermaError as error:
            _log.info("the sandbox was not told of the turn's end", reason=error.reason)

    async def _give_back(self, keeper: LeaseKeeper) -> None:
        try:
            await self._authority.release(keeper.turn_token, "drain")
        except HermaError as error:
            _log.warning("the lease was not given back; it will lapse", reason=error.reason)

    async def _watch_signals(self) -> None:
        while True:
            try:
                async for signal in self._authority.watch_signals(self.id):
                    epoch, keeper = self._keepers.get(signal.turn_id, (0, None))
                    if keeper is not None and epoch == signal.epoch:
                        keeper.interrupted.set()
            except HermaError as error:
                _log.info("the watch for signals was cut", reason=error.reason)
            await asyncio.sleep(0.2)
