"""How long what happens takes to reach a client that watches."""

from __future__ import annotations

import re
import time
from datetime import datetime

import httpx

from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Beside, Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target
from tests.benchmarks.watcher import Seen, Watcher
from tests.support.platform import Client

_STAMP = re.compile(r"at (\d+) ")


async def measure(bench: Bench) -> list[Result]:
    """First deltas and last events, one turn at a time."""
    texts: list[float] = []
    floors: list[float] = []
    events: list[float] = []
    with Stage("local") as stage:
        async with Client(stage.url, stage.key) as client, httpx.AsyncClient() as direct:
            session = await client.session()
            async with Watcher(client.http, session) as watcher:
                for number in range(bench.count(300, 30) + 5):
                    floor = await _floor(direct, stage.model_url)
                    await client.submit(session, f"stamp {number}")
                    seen = await watcher.until("turn.ended")
                    if number >= 5:  # the first ones warm up
                        floors.append(floor)
                        texts.append(_first_text(seen))
                        events.append(_since_append(seen[-1]))
    floor_samples = Samples.of(floors)
    return [
        Result(
            "First streamed text, runner to client",
            "ms",
            Samples.of(texts).minus(floor_samples.median),
            (Target("p50", 5, "ms"),),
            (Beside("model to a direct client (floor)", floor_samples),),
            "from the model server's writing of the first word to the client's reading of its"
            " `message.delta`, which is not coalesced; less the floor, the median time of the"
            " same word to a"
            " direct client, which stands for the way to the runner.",
        ),
        Result(
            "Event, append to client",
            "ms",
            Samples.of(events),
            (Target("p50", 5, "ms"),),
            (),
            "from the beginning of the transaction that appends `turn.ended` (its `at`, the"
            " database's clock)"
            " to the client's reading of it: the append itself, its commit and the way out.",
        ),
    ]


async def _floor(direct: httpx.AsyncClient, url: str) -> float:
    body = {
        "model": "scripted",
        "stream": True,
        "messages": [{"role": "user", "content": "stamp"}],
    }
    found = None
    async with direct.stream("POST", f"{url}/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            stamp = _STAMP.search(line)
            if stamp and found is None:
                found = (time.monotonic_ns() - int(stamp[1])) / 1e6
    assert found is not None
    return found


def _first_text(seen: list[Seen]) -> float:
    delta = next(s for s in seen if s.event == "message.delta")
    stamp = _STAMP.search(delta.data["text"])
    assert stamp is not None, delta.data
    return (delta.at - int(stamp[1])) / 1e6


def _since_append(ended: Seen) -> float:
    return ended.unix / 1e6 - datetime.fromisoformat(ended.data["at"]).timestamp() * 1e3
