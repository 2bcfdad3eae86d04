"""What the services hold when nothing happens, and what one more running turn adds."""

from __future__ import annotations

import asyncio

from tests.benchmarks.bench import Bench
from tests.benchmarks.processes import pss_megabytes
from tests.benchmarks.result import Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target
from tests.support.platform import Client
from tests.support.waiting import eventually

_HELD = 40
_HISTORY = 200_000


async def measure(bench: Bench) -> list[Result]:
    """Idle first, then with turns held open at the model."""
    with Stage(bench.backend, HERMA_RUNNER_SLOTS=str(2 * _HELD)) as stage:
        await asyncio.sleep(bench.count(60, 10))  # the design's definition of idle
        idle = {name: pss_megabytes([pid]) for name, pid in stage.pids.items()}
        plain = [await _held(stage, 0) for _ in range(bench.count(5, 2))]
        long = [await _held(stage, _HISTORY) for _ in range(bench.count(5, 2))]
    shares = ", ".join(f"{name} {value:.0f}" for name, value in idle.items())
    return [
        Result(
            "Idle memory of the services",
            "MB",
            Samples.of([sum(idle.values())]),
            (Target("p50", 450, "MB"),),
            (),
            f"PSS after {bench.count(60, 10)} s idle, the broker of tool-sandbox included: {shares}.",
        ),
        Result(
            "One more running turn, fresh session",
            "MB",
            Samples.of(plain),
            (Target("p50", 1, "MB"),),
            (),
            f"growth of the services' PSS with {_HELD} turns held open at the model server, for each; no"
            " history.",
        ),
        Result(
            f"One more running turn, {_HISTORY // 1000} kB of history",
            "MB",
            Samples.of(long),
            (Target("p50", 1 + 4 * _HISTORY / 1e6, "MB"),),
            (),
            f"the same with a message of {_HISTORY // 1000} kB; the target is 1 MB + 4 × the history.",
        ),
    ]


async def _held(stage: Stage, history: int) -> float:
    """Megabytes that each of the held turns adds."""
    async with Client(stage.url, stage.key) as client:
        sessions = [await client.session() for _ in range(_HELD)]
        before = pss_megabytes(stage.pids.values())
        content = "hold" + " x" * (history // 2)
        turns = [str((await client.submit(s, content))["turn_id"]) for s in sessions]
        open_messages = (
            "SELECT count(*) FROM authority.turns WHERE open_message_id IS NOT NULL AND state = 'running'"
        )
        await eventually(
            lambda: stage.platform.sql("", open_messages)[0][0] == _HELD, "all turns ask the model", 60
        )
        await asyncio.sleep(1)  # what is under way arrives
        grown = (pss_megabytes(stage.pids.values()) - before) / _HELD
        for turn in turns:
            await client.http.post(f"/v1/turns/{turn}/interrupt")
        for turn in turns:
            await client.ended(turn)
    return max(0.0, grown)
