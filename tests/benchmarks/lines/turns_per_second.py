"""How many durable turns run per second, what each costs each process, and whether memory stays flat."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field

import asyncpg

from tests.benchmarks.bench import Bench
from tests.benchmarks.flood import Flood
from tests.benchmarks.peers import rate
from tests.benchmarks.processes import processor_seconds, pss_megabytes
from tests.benchmarks.report import markdown_table
from tests.benchmarks.result import Beside, Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target

FLOOD = Flood(sessions=50, turns=10)
TURNS = FLOOD.sessions * FLOOD.turns
PEERS = {"procrastinate_jobs": "procrastinate", "dbos_workflows": "DBOS"}
# What the services may have grown by when the last of 100,000 turns has run.
FLAT_MEGABYTES = 25

_NOTES = (
    f"floods of {FLOOD.sessions} sessions with {FLOOD.turns} turns each, from the first `POST`"
    " to the last"
    " turn's end, admission over HTTP included, `herma up --runners 2`; the model server, which"
    " answers at"
    " once, and the client share the machine. The peers run between the floods on the same"
    " PostgreSQL server,"
    " each with two processes of concurrency 16 and nothing to do: procrastinate's jobs"
    " (deferral included),"
    " DBOS's one-step workflows."
)


@dataclass(slots=True)
class _Course:
    """What was seen so far."""

    rates: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    processor: Counter[str] = field(default_factory=Counter)
    peers: dict[str, list[float]] = field(default_factory=lambda: {peer: [] for peer in PEERS})


async def measure(bench: Bench) -> list[Result]:
    """Floods, and between them the peers."""
    course = _Course()
    with Stage("local", "--runners=2") as stage:
        admin = await stage.connect()
        try:
            await _run(bench, stage, admin, course)
        finally:
            await admin.close()
    bench.sections.append(_processor_section(course))
    return [_throughput(course), _memory(bench, course)]


async def _run(
    bench: Bench, stage: Stage, admin: asyncpg.Connection[asyncpg.Record], course: _Course
) -> None:
    for peer in PEERS:
        await admin.execute(f"CREATE DATABASE {peer}")
    await FLOOD.run(stage, admin)  # warms up
    every = bench.count(40, 3)
    for number in range(bench.count(200, 6)):
        if number % every == 0:
            for peer, found in course.peers.items():
                found.append(await rate(peer, stage.database_url(peer), bench.count(2000, 400)))
        before = _processor(stage)
        course.rates.append(await FLOOD.run(stage, admin))
        after = _processor(stage)
        course.processor.update({name: after[name] - before[name] for name in after})
        course.memory.append(pss_megabytes(stage.pids.values()))
        if number % every == every - 1:
            bench.say(f"  {(number + 1) * TURNS} turns, {statistics.median(course.rates):.0f} a second")


def _throughput(course: _Course) -> Result:
    beside = tuple(
        Beside(PEERS[peer], Samples.of(found), faster_is_more=True)
        for peer, found in course.peers.items()
    )
    target = Target("p50", 150, "turns/s", at_least=True)
    return Result(
        "Durable turns per second, 2 runners",
        "/s",
        Samples.of(course.rates),
        (target,),
        beside,
        _NOTES,
    )


def _memory(bench: Bench, course: _Course) -> Result:
    turns = len(course.memory) * TURNS
    early = statistics.median(course.memory[: max(1, len(course.memory) // 10)])
    grown = Samples.of([max(0.0, course.memory[-1] - early)])
    return Result(
        f"Growth of the services' memory over {turns:,} turns",
        "MB",
        grown,
        # A tenth of a few thousand turns is still the filling of pools and caches.
        () if bench.quick else (Target("p50", FLAT_MEGABYTES, "MB"),),
        (Beside("the services after the first tenth", Samples.of([early])),),
        "PSS of all services and the broker (two runners) after the last flood, less the median"
        " of the first"
        f" tenth of the floods. `flat` is taken as {FLAT_MEGABYTES} MB over 100,000 turns; a"
        " quick run, whose"
        " caches still fill, has no target.",
    )


def _processor(stage: Stage) -> dict[str, float]:
    pids = {**stage.pids, "postgres": stage.postgres_pid, "model server": stage.model_pid}
    return {name: processor_seconds(pid) for name, pid in pids.items()}


def _processor_section(course: _Course) -> tuple[str, str]:
    turns = len(course.rates) * TURNS
    rows = [
        (name, f"{seconds / turns * 1e3:.2f}")
        for name, seconds in course.processor.most_common()
        if seconds / turns > 1e-5
    ]
    rows.append(("together", f"{course.processor.total() / turns * 1e3:.2f}"))
    return (
        "Processor time of a turn",
        "While flooded; what all processes spend together bounds turns per second.\n\n"
        + markdown_table(("Process", "ms a turn"), rows),
    )
