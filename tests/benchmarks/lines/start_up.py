"""How long `herma up` takes on a folder that was up before."""

from __future__ import annotations

import time

from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target


async def measure(bench: Bench) -> list[Result]:
    """Down and up again."""
    took = []
    with Stage(bench.backend) as stage:
        for _ in range(bench.count(10, 3)):
            stage.platform.herma("down")
            began = time.monotonic()
            stage.platform.up()
            took.append(time.monotonic() - began)
    return [
        Result(
            "`herma up` to ready, second start",
            "s",
            Samples.of(took),
            (Target("p50", 5, "s"),),
            (),
            "`herma up --detach`, the whole command, on a folder that was up before and was brought down:"
            " PostgreSQL, migrations, all services, one turn through everything.",
        )
    ]
