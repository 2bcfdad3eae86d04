"""The gRPC face for runners: unpack, call, pack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind

from herma.api.lease.v1 import lease_pb2, lease_pb2_grpc
from herma.common import telemetry
from herma.common.errors import HermaError, InvalidArgument
from herma.common.ids import parse_id
from herma.common.logs import logger
from herma.common.rpc import current_caller
from herma.common.turn_token import TurnIdentity, TurnTokenSigner, TurnTokenVerifier
from herma.session_authority import wire
from herma.session_authority.bells import Belfry
from herma.session_authority.domain.model import Lease
from herma.session_authority.store.deltas import DeltaWriter
from herma.session_authority.store.leases import LeaseStore
from herma.session_authority.store.ledger import LedgerStore

_log = logger(__name__)

# The version of ledger records that this release writes.
LEDGER_VERSION = 1

_MAX_WAIT = 30.0
# How long a lost ring may delay a claim or a signal.
_POLL_SECONDS = 1.0
# Outlives the lease, so that a runner at the end of its lease is told LEASE_LOST and not that its
# token expired; the epoch fences, not this.
_TOKEN_SECONDS = 3600


class LeaseServicer(lease_pb2_grpc.LeaseServiceServicer):
    """Leases and fenced writes."""

    def __init__(
        self,
        leases: LeaseStore,
        ledger: LedgerStore,
        deltas: DeltaWriter,
        belfry: Belfry,
        signer: TurnTokenSigner,
        verifier: TurnTokenVerifier,
    ) -> None:
        self._leases = leases
        self._ledger = ledger
        self._deltas = deltas
        self._belfry = belfry
        self._signer = signer
        self._verifier = verifier
        self._stopping = asyncio.Event()

    def close(self) -> None:
        """Lets long polls end now: this replica stops."""
        self._stopping.set()
        self._belfry.ring_all()

    async def Claim(  # noqa: N802  # the proto's name
        self, request: lease_pb2.ClaimRequest, context: Any
    ) -> lease_pb2.ClaimResponse:
        request_id = parse_id(request.request_id, "request_id")
        runner_id = parse_id(request.runner_id, "runner_id")
        if request.ledger_version < LEDGER_VERSION:
            raise InvalidArgument(
                "the runner reads no ledger of this release",
                reason="LEDGER_VERSION_UNREADABLE",
                fields={"ledger_version": f"at least {LEDGER_VERSION}"},
            )
        until = time.monotonic() + min(request.wait.ToMilliseconds() / 1000, _MAX_WAIT)
        while not self._stopping.is_set():
            ticket = self._belfry.work.ticket()
            began = time.time_ns()
            lease = await self._leases.claim(request_id, runner_id)
            if lease is not None:
                _trace_claim(lease, began)
                self._belfry.ring_session(lease.session_id)
                identity = TurnIdentity(
                    tenant_id=lease.tenant_id,
                    session_id=lease.session_id,
                    turn_id=lease.turn.id,
                    profile_id=lease.profile.id,
                    principal_id=lease.principal_id,
                    trust=lease.trust,
                    epoch=lease.epoch,
                    expires_at=int(time.time()) + _TOKEN_SECONDS,
                )
                return lease_pb2.ClaimResponse(
                    lease=wire.lease_message(
                        lease, self._token(identity), self._leases.ttl.total_seconds()
                    )
                )
            left = until - time.monotonic()
            if left <= 0:
                break
            await self._belfry.work.wait(ticket, min(left, _POLL_SECONDS))
        return lease_pb2.ClaimResponse()

    async def Renew(  # noqa: N802
        self, request: lease_pb2.RenewRequest, context: Any
    ) -> lease_pb2.RenewResponse:
        identity = self._identity()
        asked = await self._leases.renew(identity)
        fresh = replace(identity, expires_at=int(time.time()) + _TOKEN_SECONDS)
        response = lease_pb2.RenewResponse(turn_token=self._token(fresh), interrupt_requested=asked)
        response.ttl.FromTimedelta(self._leases.ttl)
        return response

    async def Append(  # noqa: N802
        self, request: lease_pb2.AppendRequest, context: Any
    ) -> lease_pb2.AppendResponse:
        identity = self._identity()
        outcome = await self._ledger.append(identity, wire.step_of(request))
        self._belfry.ring_session(identity.session_id)
        if outcome.is_runnable:
            self._belfry.ring_work()
        return lease_pb2.AppendResponse(
            message_ids=wire.ids(outcome.message_ids),
            call_ids=wire.ids(outcome.call_ids),
            last_seq=outcome.last_seq,
            interrupt_requested=outcome.interrupt_requested,
        )

    async def Release(  # noqa: N802
        self, request: lease_pb2.ReleaseRequest, context: Any
    ) -> lease_pb2.ReleaseResponse:
        await self._leases.release(self._identity())
        self._belfry.ring_work()
        return lease_pb2.ReleaseResponse()

    async def PublishDeltas(  # noqa: N802
        self, request_iterator: AsyncIterator[lease_pb2.PublishDeltasRequest], context: Any
    ) -> lease_pb2.PublishDeltasResponse:
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(self._take_deltas(request_iterator))
            stopping = tasks.create_task(self._stopping.wait())
            await asyncio.wait([taking, stopping], return_when=asyncio.FIRST_COMPLETED)
            taking.cancel()
            stopping.cancel()
        return lease_pb2.PublishDeltasResponse()

    async def _take_deltas(self, requests: AsyncIterator[lease_pb2.PublishDeltasRequest]) -> None:
        async for request in requests:
            try:
                identity = self._verifier.verify(request.turn_token)
                delta = wire.delta_of(request.delta, identity.turn_id)
            except HermaError as error:
                _log.info("streamed text was dropped", reason=error.reason)
                continue
            self._deltas.put(identity.tenant_id, identity.session_id, delta)

    async def WatchSignals(  # noqa: N802
        self, request: lease_pb2.WatchSignalsRequest, context: Any
    ) -> AsyncIterator[lease_pb2.WatchSignalsResponse]:
        runner_id = parse_id(request.runner_id, "runner_id")
        told: set[tuple[object, int]] = set()
        while not self._stopping.is_set():
            ticket = self._belfry.signals.ticket()
            current = {
                (entry.turn_id, entry.epoch) for entry in await self._leases.interrupts_of(runner_id)
            }
            for turn_id, epoch in current - told:
                yield lease_pb2.WatchSignalsResponse(turn_id=str(turn_id), epoch=epoch, kind="interrupt")
            told = set(current)
            await self._belfry.signals.wait(ticket, _POLL_SECONDS)

    def _token(self, identity: TurnIdentity) -> str:
        token = self._signer.sign(identity)
        self._verifier.remember(token, identity)
        return token

    def _identity(self) -> TurnIdentity:
        return self._verifier.verify(current_caller().turn_token)


def _trace_claim(lease: Lease, began: int) -> None:
    """The claim as a span of the turn's trace, from the look that found it; its long poll has none.

    What lies between it and the admission is the turn's wait in the queue.
    """
    context = telemetry.context_from(lease.turn.traceparent)
    if not trace.get_current_span(context).get_span_context().is_valid:
        return
    trace.get_tracer("herma.session_authority").start_span(
        "claim",
        context=context,
        kind=SpanKind.CONSUMER,
        start_time=began,
        links=telemetry.link_to(lease.previous_attempt),
        attributes={
            "herma.turn.id": str(lease.turn.id),
            "herma.turn.attempt": lease.turn.attempt,
            "gen_ai.conversation.id": str(lease.session_id),
        },
    ).end()
