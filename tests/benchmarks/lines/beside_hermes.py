"""Herma beside hermes-agent with the same scripted model: an optional extra, `BENCH_HERMES=1`."""

from __future__ import annotations

import os

import httpx

from tests.benchmarks.bench import Bench
from tests.benchmarks.flood import Flood
from tests.benchmarks.lines.turn_overhead import TURNS, run_session
from tests.benchmarks.peers.hermes_agent import HermesAgent, installed
from tests.benchmarks.result import Beside, Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.support.platform import Client

_NAME = "hermes-agent 0.19"
_FLOOD = Flood(sessions=20, turns=10)


async def measure(bench: Bench) -> list[Result]:
    """Turns of both, taking turns; nothing unless it is asked for."""
    where = os.environ.get("BENCH_HERMES", "")
    if not where:
        return []
    ours: list[float] = []
    theirs: list[float] = []
    floors: list[float] = []
    rates: list[float] = []
    their_rates: list[float] = []
    with installed(where) as venv, Stage("local", "--runners=2") as stage:
        async with (
            HermesAgent(venv, stage.model_url) as hermes,
            Client(stage.url, stage.key) as client,
            httpx.AsyncClient() as direct,
        ):
            await run_session(client, direct, stage)
            await hermes.rate(3, 1)  # both are warm
            for _ in range(bench.count(10, 2)):
                turns, floor = await run_session(client, direct, stage)
                ours, floors = ours + turns, floors + floor
                theirs += [await hermes.turn(number) for number in range(TURNS)]
            admin = await stage.connect()
            try:
                for _ in range(bench.count(5, 2)):
                    rates.append(await _FLOOD.run(stage, admin))
                    their_rates.append(await hermes.rate(16, 8))
            finally:
                await admin.close()
    return _results(ours, theirs, floors, rates, their_rates)


def _results(
    ours: list[float],
    theirs: list[float],
    floors: list[float],
    rates: list[float],
    their_rates: list[float],
) -> list[Result]:
    floor = Samples.of(floors).median
    return [
        Result(
            "Turn overhead beside hermes-agent",
            "ms",
            Samples.of(ours).minus(floor),
            (),
            (Beside(_NAME, Samples.of(theirs).minus(floor), times_faster=True),),
            "as “Turn overhead”, with two runners; hermes-agent is asked through its"
            " OpenAI-compatible API"
            " server, without history, and the same floor is taken off. No target: it is there"
            " to compare.",
        ),
        Result(
            "Turns per second beside hermes-agent",
            "/s",
            Samples.of(rates),
            (),
            (Beside(_NAME, Samples.of(their_rates), times_faster=True, faster_is_more=True),),
            f"floods of {_FLOOD.sessions} sessions with {_FLOOD.turns} turns, as above; hermes-agent with"
            " eight requests at once.",
        ),
    ]
