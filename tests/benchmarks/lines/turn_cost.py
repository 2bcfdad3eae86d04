"""What one turn without tools asks of the platform: RPCs, transactions, waits for the disk."""

from __future__ import annotations

import asyncio

from tests.benchmarks.bench import Bench
from tests.benchmarks.costs import rpcs_of_turns, run_turns, transactions
from tests.benchmarks.report import markdown_table
from tests.benchmarks.result import Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target

# PostgreSQL's sessions report their statistics at most so late (seconds).
_REPORTED = 2.5


async def measure(bench: Bench) -> list[Result]:
    """Counts over many turns of one session, one after the other."""
    turns = bench.count(200, 50)
    rpcs = await asyncio.to_thread(rpcs_of_turns, "local", turns, "Say something.")
    syncs, commits = await _commits(turns)
    rows = [(method, f"{count / turns:.2f}") for method, count in rpcs.most_common()]
    bench.sections.append(("RPCs of a turn without tools", markdown_table(("RPC", "a turn"), rows)))
    return [
        Result(
            "RPCs of a turn without tools",
            "",
            Samples.of([round(rpcs.total() / turns, 1)]),
            (Target("p50", 5, ""),),
            (),
            f"calls served by all services (`rpc.server.call.duration`) for {turns} turns of one"
            " session, less those of a platform that ran none; renewals and polls are included.",
        ),
        Result(
            "Durable commits of a turn without tools",
            "",
            Samples.of([round(syncs, 1)]),
            (Target("p50", 4, ""),),
            (),
            "how often a session of PostgreSQL waited for its commit's log to reach the disk, a"
            " turn, one turn"
            f" at a time. {commits:.1f} transactions were committed a turn in all; the others"
            " read, or wrote"
            " what may be lost (streamed text, notifications).",
        ),
    ]


async def _commits(turns: int) -> tuple[float, float]:
    """Waits for the log and transactions, a turn."""
    with Stage("local") as stage:
        admin = await stage.connect()
        try:
            await run_turns(stage, 5, "Say something first.")
            await asyncio.sleep(_REPORTED)
            before = await transactions(admin)
            await run_turns(stage, turns, "Say something.")
            await asyncio.sleep(_REPORTED)
            after = await transactions(admin)
        finally:
            await admin.close()
    return (after[1] - before[1]) / turns, (after[0] - before[0]) / turns
