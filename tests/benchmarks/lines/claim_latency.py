"""How soon a waiting runner has what was submitted."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

import asyncpg

from herma.api.lease.v1 import lease_pb2, lease_pb2_grpc
from herma.common.rpc import Peer
from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Beside, Result, not_measured
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target
from tests.benchmarks.watcher import Watcher
from tests.support.platform import Client
from tests.support.waiting import eventually

QUEUED = 100_000
_RUNNER_VERSION = 1


async def measure(bench: Bench) -> list[Result]:
    """The way through an idle platform; then claims against a long queue."""
    with Stage("local") as stage:
        waits = await _waits(stage, bench.count(300, 40))
    with Stage("local") as stage:
        short, long = await _claims(stage, bench.count(300, 40))
    return [
        Result(
            "Submit → a waiting runner has it",
            "ms",
            Samples.of(waits),
            (Target("p50", 4, "ms"),),
            (),
            "from session-authority's receiving of `Submit` (its span's start) to the runner's"
            " taking up of"
            " the turn (its `invoke_agent` span's start), one turn at a time.",
        ),
        not_measured(
            f"Submit → a waiting runner has it, {QUEUED:,} turns queued by others",
            "p50 ≤ 4 ms",
            "claims go by age until tenants are served fairly (design, “Fairness and limits”)",
        ),
        Result(
            f"Claim when a slot frees, {QUEUED:,} turns queued by others",
            "ms",
            Samples.of(long),
            (Target("p50", 4, "ms"),),
            (Beside("claim with few queued", Samples.of(short)),),
            "a runner's `Claim` over gRPC, from the call to the lease, while another tenant has that many"
            " sessions with a turn each. It shows what the queue's length costs, not whose turn is next.",
        ),
    ]


async def _waits(stage: Stage, count: int) -> list[float]:
    traces = []
    async with Client(stage.url, stage.key) as client:
        session = await client.session()
        async with Watcher(client.http, session) as watcher:
            for number in range(count + 5):
                admitted = await client.submit(session, f"Say something, {number}.")
                await watcher.until("turn.ended")
                if number >= 5:  # the first ones warm up
                    traces.append(str(admitted["turn_id"]))

    def look() -> list[float]:
        found = _spans_apart(stage.spans(), set(traces))
        return found if len(found) == count else []

    return await eventually(look, "all spans are written")


def _spans_apart(spans: list[dict[str, Any]], turns: set[str]) -> list[float]:
    submitted = {s["trace_id"]: s["start"] for s in spans if s["name"].endswith("SessionService/Submit")}
    return [
        (span["start"] - submitted[span["trace_id"]]) / 1e6
        for span in spans
        if span["attributes"].get("herma.turn.id") in turns
        and span["name"].startswith("invoke_agent")
        # The services write their spans in their own time.
        and span["trace_id"] in submitted
    ]


async def _claims(stage: Stage, count: int) -> tuple[list[float], list[float]]:
    """Claim times with few and with many turns queued."""
    admin = await stage.connect()
    try:
        async with _runner_stopped(stage), stage.peer("session-authority") as peer:
            await _queue(admin, "few", count + 50)
            short = [await _claim(peer) for _ in range(count)]
            await _queue(admin, "many", QUEUED)
            await admin.execute("ANALYZE")
            long = [await _claim(peer) for _ in range(count)]
    finally:
        await admin.close()
    return short, long


@asynccontextmanager
async def _runner_stopped(stage: Stage) -> AsyncIterator[None]:
    """The platform's own runner claims nothing meanwhile, but what its long poll is answered."""
    pid = stage.platform.kill("agent-runner", signal.SIGSTOP)
    try:
        yield
    finally:
        with _gone_is_fine():
            import os

            os.kill(pid, signal.SIGKILL)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except ProcessLookupError:
        pass


async def _claim(peer: Peer) -> float:
    stub: Any = lease_pb2_grpc.LeaseServiceStub(peer.channel)
    request = lease_pb2.ClaimRequest(
        request_id=str(uuid4()), runner_id=str(uuid4()), ledger_version=_RUNNER_VERSION
    )
    began = time.monotonic_ns()
    response = await peer.call(stub.Claim, request, timeout=30)
    elapsed = (time.monotonic_ns() - began) / 1e6
    assert response.HasField("lease"), "nothing to claim"
    return elapsed


async def _queue(admin: asyncpg.Connection[asyncpg.Record], tenant: str, count: int) -> None:
    """Makes a tenant with that many sessions, each with a turn that may be claimed."""
    await admin.execute(
        """
        WITH t AS (INSERT INTO authority.tenants (id, name) VALUES (gen_random_uuid(), $1) RETURNING id),
             p AS (INSERT INTO authority.principals (tenant_id, id, issuer, subject, role)
                   SELECT id, gen_random_uuid(), 'bench', 'bench', 'member' FROM t
                   RETURNING tenant_id, id),
             f AS (INSERT INTO authority.profiles (tenant_id, id, name, version)
                   SELECT id, gen_random_uuid(), 'default', 1 FROM t RETURNING tenant_id, id),
             v AS (INSERT INTO authority.profile_versions (tenant_id, profile_id, version, spec)
                   SELECT tenant_id, id, 1, '{}' FROM f RETURNING tenant_id),
             s AS (INSERT INTO authority.sessions (tenant_id, id, principal_id, profile_id, last_seq,
                                                   runnable_since)
                   SELECT p.tenant_id, gen_random_uuid(), p.id, f.id, 1, now()
                   FROM p, f, v, generate_series(1, $2::integer) RETURNING tenant_id, id, principal_id,
                   profile_id)
        INSERT INTO authority.turns (tenant_id, id, session_id, principal_id, profile_id, profile_version,
                                     kind, trust, content, state, seq)
        SELECT tenant_id, gen_random_uuid(), id, principal_id, profile_id, 1, 'message', 'trusted',
               'Say something.', 'queued', 1 FROM s
        """,
        tenant,
        count,
    )
