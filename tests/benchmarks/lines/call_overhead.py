"""What one tool call costs beyond the command that it runs."""

from __future__ import annotations

from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Beside, Result, not_measured
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target
from tests.benchmarks.watcher import Seen, Watcher
from tests.support.platform import Client, docker_answers
from tests.support.waiting import eventually

CALLS = 5
_WHAT = "Tool call beyond the tool"


async def measure(bench: Bench) -> list[Result]:
    """On each backend that there is."""
    results = [await _on("local", bench)]
    if docker_answers():
        return [await _on("docker", bench), *results]
    return [not_measured(f"{_WHAT}, docker", "p50 ≤ 10 ms", "no Docker engine answers"), *results]


async def _on(backend: str, bench: Bench) -> Result:
    calls: list[float] = []
    with Stage(backend) as stage:
        async with Client(stage.url, stage.key) as client:
            session = await client.session()
            async with Watcher(client.http, session) as watcher:
                for number in range(bench.count(60, 8) + 1):
                    await client.submit(session, f"true {CALLS} {number}")
                    seen = await watcher.until("turn.ended")
                    assert seen[-1].data["state"] == "completed", seen[-1].data
                    if number:  # the first one makes the sandbox
                        calls += _durations(seen)
        tool = Samples.of(await eventually(lambda: _commands(stage, len(calls)), "all spans are written"))
    return Result(
        f"{_WHAT}, {backend}",
        "ms",
        Samples.of(calls).minus(tool.median),
        (Target("p50", 10, "ms"),),
        (Beside("`true` in sandboxd", tool),),
        f"`terminal` with `true`, {CALLS} calls a turn, one after the other, in a running"
        " sandbox: from the"
        " client's reading of `call.proposed` to its reading of `call.completed`, less the"
        " median time that"
        " the command itself took in sandboxd. The model's steps between calls are no part of it.",
    )


def _durations(seen: list[Seen]) -> list[float]:
    proposed = {s.data["call_id"]: s.at for s in seen if s.event == "call.proposed"}
    completed = {s.data["call_id"]: s.at for s in seen if s.event == "call.completed"}
    assert len(completed) == CALLS, [s.event for s in seen]
    return [(completed[call] - proposed[call]) / 1e6 for call in proposed]


def _commands(stage: Stage, wanted: int) -> list[float]:
    found = [(s["end"] - s["start"]) / 1e6 for s in stage.spans() if s["name"] == "sandboxd exec"]
    return found if len(found) >= wanted else []
