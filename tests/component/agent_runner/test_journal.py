"""Steps follow one another whatever happens to who writes them, over a played authority's real wire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.waiting import eventually

from herma.agent_runner import wire
from herma.agent_runner.authority import Authority
from herma.agent_runner.journal import Journal
from herma.agent_runner.lease_keeper import LeaseKeeper
from herma.api.lease.v1 import lease_pb2, lease_pb2_grpc
from herma.common.errors import LeaseLost, StepConflict
from herma.common.rpc import Peer, RpcServer, ServedApi, ServiceIdentity, ServiceKeys

KEYS = ServiceKeys({"agent-runner>session-authority": "k" * 32})


class Ledger(lease_pb2_grpc.LeaseServiceServicer):
    """Takes steps as the real one does: the next one, or the last one again."""

    def __init__(self) -> None:
        self.steps: list[lease_pb2.AppendRequest] = []
        self.answers = asyncio.Event()
        self.refusal: Exception | None = None

    async def Append(self, request: Any, context: Any) -> Any:
        if self.refusal is not None:
            raise self.refusal
        if not self.steps or self.steps[-1] != request:
            if request.step != len(self.steps) + 1:
                raise StepConflict()
            self.steps.append(request)
        await self.answers.wait()
        return lease_pb2.AppendResponse()


@asynccontextmanager
async def journal_of(ledger: Ledger, ttl: float = 60.0) -> AsyncIterator[Journal]:
    """A journal before its first step."""
    server = RpcServer(
        ServiceIdentity("session-authority", KEYS),
        [
            ServedApi(
                "herma.api.lease.v1.LeaseService",
                lease_pb2_grpc.add_LeaseServiceServicer_to_server,
                ledger,
                frozenset({"agent-runner"}),
            )
        ],
        "127.0.0.1:0",
    )
    await server.start()
    identity = ServiceIdentity("agent-runner", KEYS)
    async with Peer("session-authority", f"127.0.0.1:{server.port}", identity) as peer:
        authority = Authority(peer)
        keeper = LeaseKeeper(authority, "", ttl, time.monotonic(), time.monotonic)
        yield Journal(authority, keeper, 0)
    await server.stop(0)


async def given_up(ledger: Ledger, journal: Journal) -> None:
    """A step that took effect, and whose writer is gone before it is answered."""
    writing = asyncio.create_task(journal.append([wire.status("one")]))
    await eventually(lambda: ledger.steps, "the step is written")
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(writing, 5)


async def test_a_step_follows_one_whose_writer_was_interrupted() -> None:
    ledger = Ledger()
    async with journal_of(ledger) as journal:
        await given_up(ledger, journal)
        ending = asyncio.create_task(journal.append([], wire.finish("interrupted", "x", "")))
        await asyncio.sleep(0)
        ledger.answers.set()
        await asyncio.wait_for(ending, 10)
    assert [step.step for step in ledger.steps] == [1, 2]
    assert ledger.steps[1].HasField("finish")


async def test_a_step_that_was_not_sent_is_not_written_by_who_was_interrupted() -> None:
    ledger = Ledger()
    async with journal_of(ledger) as journal:
        first = asyncio.create_task(journal.append([wire.status("one")]))
        await eventually(lambda: ledger.steps, "the step is written")
        waiting = asyncio.create_task(journal.append([wire.status("two")]))
        await asyncio.sleep(0)
        waiting.cancel()
        ledger.answers.set()
        await first
        await journal.append([wire.status("three")])
    assert [step.operations[0].status.text for step in ledger.steps] == ["one", "three"]


async def test_a_refusal_that_nobody_waits_for_does_not_stop_the_next_step() -> None:
    ledger = Ledger()
    async with journal_of(ledger) as journal:
        await given_up(ledger, journal)
        ledger.refusal = LeaseLost()
        ledger.answers.set()
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(journal.append([wire.status("two")]), 10)
