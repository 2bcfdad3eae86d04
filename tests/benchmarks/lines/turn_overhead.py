"""What a turn costs beyond its model call, on an idle system."""

from __future__ import annotations

import time

import httpx

from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Beside, Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target
from tests.benchmarks.watcher import Watcher, no_garbage_collection
from tests.support.platform import Client

# Turns of one session: one in so many pays for the first prompt, and history grows to twice as many.
TURNS = 10

NOTES = (
    "from sending `POST …/messages` to reading `turn.ended` on an event stream that was opened before, no"
    f" tools, one turn at a time, sessions of {TURNS} turns; less the floor, which is the median"
    " of direct"
    " streamed completions (same server, same answer, httpx with a warm connection), asked for"
    " between the"
    " turns. The client is httpx; its own work counts as Herma's."
)


async def measure(bench: Bench) -> list[Result]:
    """Turns, and between them the floor."""
    with Stage("local") as stage:
        async with Client(stage.url, stage.key) as client, httpx.AsyncClient() as direct:
            await run_session(client, direct, stage)  # warms up
            turns: list[float] = []
            floors: list[float] = []
            with no_garbage_collection():
                for _ in range(bench.count(50, 8)):
                    ours, floor = await run_session(client, direct, stage)
                    turns += ours
                    floors += floor
    floor_samples = Samples.of(floors)
    return [
        Result(
            "Turn overhead",
            "ms",
            Samples.of(turns).minus(floor_samples.median),
            (Target("p50", 14, "ms"), Target("p95", 28, "ms")),
            (Beside("model call alone (floor)", floor_samples),),
            NOTES,
        )
    ]


async def run_session(
    client: Client, direct: httpx.AsyncClient, stage: Stage
) -> tuple[list[float], list[float]]:
    """The turns of one new session and the floors between them, in milliseconds."""
    session = await client.session()
    turns, floors = [], []
    async with Watcher(client.http, session) as watcher:
        for number in range(TURNS):
            floors.append(await completion(direct, stage.model_url))
            began = time.monotonic_ns()
            response = await client.http.post(
                f"/v1/sessions/{session}/messages", json={"content": f"Say something, {number}."}
            )
            ended = (await watcher.until("turn.ended"))[-1]
            assert response.status_code == 202, response.text
            assert ended.data["state"] == "completed", ended.data
            turns.append((ended.at - began) / 1e6)
    return turns, floors


async def completion(direct: httpx.AsyncClient, url: str) -> float:
    """One streamed completion to its end, in milliseconds."""
    began = time.monotonic_ns()
    body = {
        "model": "scripted",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Say something."}],
    }
    async with direct.stream("POST", f"{url}/chat/completions", json=body) as response:
        assert response.status_code == 200
        async for _ in response.aiter_lines():
            pass
    return (time.monotonic_ns() - began) / 1e6
