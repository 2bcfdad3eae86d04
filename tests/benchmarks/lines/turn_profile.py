"""Where the time of one turn goes: by hop, and by statement in PostgreSQL."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from typing import Any

import asyncpg

from tests.benchmarks.bench import Bench
from tests.benchmarks.costs import run_turns
from tests.benchmarks.hops import HOPS, MODEL, hops_of
from tests.benchmarks.report import markdown_table
from tests.benchmarks.result import Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.watcher import Watcher
from tests.support.platform import Client
from tests.support.waiting import eventually

_STATEMENTS = """
    SELECT s.query, s.calls, s.total_exec_time + s.total_plan_time AS time
    FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
    WHERE r.rolname LIKE 'herma%' AND s.toplevel ORDER BY s.calls DESC
"""


async def measure(bench: Bench) -> list[Result]:
    """Sections of the document; no line of the table."""
    turns = bench.count(300, 40)
    with Stage("local") as stage:
        taken = await _hops(stage, turns)
    bench.sections.append(_hops_section(taken))
    with Stage("local") as stage:
        statements = await _statements(stage, turns)
    bench.sections.append(_statements_section(statements, turns))
    return []


async def _hops(stage: Stage, turns: int) -> list[list[float]]:
    """The hops of each turn, of one session's second turn on."""
    marks: list[tuple[str, int, int]] = []
    async with Client(stage.url, stage.key) as client:
        session = await client.session()
        async with Watcher(client.http, session) as watcher:
            for number in range(turns + 5):
                sent = time.time_ns()
                admitted = await client.submit(session, f"Say something, {number}.")
                ended = (await watcher.until("turn.ended"))[-1]
                if number >= 5:  # the first ones warm up
                    marks.append((str(admitted["turn_id"]), sent, ended.unix))

    def look() -> list[list[float]]:
        traces: dict[str, list[dict[str, Any]]] = defaultdict(list)
        of_turn = {}
        for span in stage.spans():
            traces[span["trace_id"]].append(span)
            if "herma.turn.id" in span["attributes"]:
                of_turn[span["attributes"]["herma.turn.id"]] = span["trace_id"]
        found = [hops_of(sent, seen, traces[of_turn.get(turn, "")]) for turn, sent, seen in marks]
        return [hops for hops in found if hops is not None] if None not in found else []

    return await eventually(look, "all spans are written")


def _hops_section(taken: list[list[float]]) -> tuple[str, str]:
    columns = [Samples.of(column) for column in zip(*taken, strict=True)]
    own = Samples.of(sum(hops) - hops[MODEL] for hops in taken)
    rows = [
        (name, f"{column.median:.2f}", f"{column.p95:.2f}", f"{column.median / own.median:.0%}")
        for name, column in zip(HOPS, columns, strict=True)
    ]
    rows[MODEL] = (*rows[MODEL][:3], "–")
    rows.append(("**all but the model call**", f"{own.median:.2f}", f"{own.p95:.2f}", "100%"))
    return (
        "One turn by hop",
        f"Medians over {len(taken)} turns without tools, one at a time, from the spans that `herma trace`"
        " draws and the client's own clock. Each hop begins where the one before it ends; spans"
        " are written"
        " to a file meanwhile, as always.\n\n"
        + markdown_table(("Hop", "Median, ms", "p95, ms", "Share"), rows),
    )


async def _statements(stage: Stage, turns: int) -> list[asyncpg.Record]:
    admin = await stage.connect()
    await admin.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
    await admin.close()
    stage.platform.herma("down")
    stage.platform.up()
    admin = await stage.connect()
    try:
        await admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await admin.execute("ALTER SYSTEM SET pg_stat_statements.track_planning = on")
        await admin.execute("SELECT pg_reload_conf()")
        await run_turns(stage, 5, "Say something first.")
        await admin.execute("SELECT pg_stat_statements_reset()")
        await run_turns(stage, turns, "Say something.")
        found: list[asyncpg.Record] = await admin.fetch(_STATEMENTS)
        return found
    finally:
        await admin.close()


def _statements_section(statements: list[asyncpg.Record], turns: int) -> tuple[str, str]:
    rows = [
        (f"`{_short(s['query'])}`", f"{s['calls'] / turns:.1f}", f"{s['time'] / turns:.3f}")
        for s in statements
        if s["calls"] >= turns / 4
    ]
    calls = sum(s["calls"] for s in statements) / turns
    spent = sum(s["time"] for s in statements) / turns
    rows.append(("all", f"{calls:.1f}", f"{spent:.3f}"))
    return (
        "Statements of a turn",
        f"From `pg_stat_statements` over {turns} turns; each statement is a round trip of"
        " session-authority.\n\n"
        + markdown_table(("Statement", "Calls a turn", "Planning and running, ms a turn"), rows),
    )


def _short(query: str) -> str:
    text = re.sub(r"\s+", " ", query).strip()
    return text if len(text) <= 90 else text[:89] + "…"
