"""What turns ask of the platform, counted: RPCs that were served, transactions, waits for the disk."""

from __future__ import annotations

import asyncio
from collections import Counter

import asyncpg

from tests.benchmarks.stage import Stage
from tests.benchmarks.watcher import Watcher
from tests.support.otlp_receiver import Metric, OtlpReceiver
from tests.support.platform import Client

_DURATIONS = "rpc.server.call.duration"
_SYNCS = """
    SELECT coalesce(sum(fsyncs), 0)::bigint FROM pg_stat_io
    WHERE object = 'wal' AND backend_type = 'client backend'
"""
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'"


def calls_served(metrics: list[Metric]) -> Counter[str]:
    """Calls by method (`Service/Method`), of every process that exported: each one's newest export."""
    newest: dict[tuple[object, str], int] = {}
    for metric in metrics:
        if metric.name != _DURATIONS:
            continue
        for point in metric.points:
            method = str(point.attributes["rpc.method"]).rpartition(".")[2]
            newest[(metric.resource.get("process.pid"), method)] = point.count
    found: Counter[str] = Counter()
    for (_, method), count in newest.items():
        found[method] += count
    return found


def rpcs_of_turns(backend: str, turns: int, content: str) -> Counter[str]:
    """RPCs that so many turns of one session cost, what serving none costs taken off.

    It runs a loop of its own: call it in a thread that has none.

    Raises:
        AssertionError: when fewer calls were counted than such turns must make: an export was lost, or
            the idle platform did more than start.
    """
    busy, idle = _served(backend, turns, content), _served(backend, 0, content)
    found = busy - idle
    whole = found["SessionService/Submit"] == turns and found["LeaseService/Append"] >= 2 * turns
    assert whole, f"not all calls were counted: {busy}, idle {idle}"
    return found


def _served(backend: str, turns: int, content: str) -> Counter[str]:
    with OtlpReceiver() as receiver:
        with Stage(backend, HERMA_OTLP_ENDPOINT=receiver.endpoint) as stage:
            asyncio.run(run_turns(stage, turns, content))
        # What was left to export was exported when the services stopped.
        return calls_served(receiver.metrics)


async def run_turns(stage: Stage, turns: int, content: str) -> None:
    """Runs turns of one new session, one after the other, as a client that watches."""
    async with Client(stage.url, stage.key) as client:
        session = await client.session()
        async with Watcher(client.http, session) as watcher:
            for number in range(turns):
                await client.submit(session, f"{content} {number}")
                ended = (await watcher.until("turn.ended"))[-1]
                assert ended.data["state"] == "completed", ended.data


async def transactions(admin: asyncpg.Connection[asyncpg.Record]) -> tuple[int, int]:
    """Transactions that were committed so far, and waits of backends for their commit's log.

    Sessions report what they did when they have been idle for a second (PostgreSQL, "The Cumulative
    Statistics System"), so the caller waits before.
    """
    return await admin.fetchval(_COMMITS), await admin.fetchval(_SYNCS)
