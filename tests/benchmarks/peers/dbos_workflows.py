"""DBOS's one-step workflows per second: two processes, each with sixteen of them under way at a time.

Source: DBOS's documentation, "Learn DBOS Python", "Workflows and Steps": a workflow's start, each step's
outcome and the workflow's end are written to the system database.
"""

from __future__ import annotations

import asyncio
import sys
import time
from uuid import uuid4

from dbos import DBOS, DBOSConfig

PROCESSES = 2
CONCURRENCY = 16


@DBOS.step()
async def nothing(number: int) -> int:
    """The one step."""
    return number


@DBOS.workflow()
async def one_step(number: int) -> int:
    """A workflow of one step."""
    return await nothing(number)


async def flood(count: int) -> tuple[float, float]:
    """When the first workflow began and the last one had ended, after some that warm up."""
    await asyncio.gather(*(one_step(number) for number in range(CONCURRENCY)))
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await one_step(number)

    began = time.monotonic()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return began, time.monotonic()


def one(url: str, count: int) -> None:
    """One of the processes; prints its times."""
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "log_level": "ERROR",
        "executor_id": uuid4().hex,
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        began, ended = asyncio.run(flood(count))
        print(began, ended, flush=True)
    finally:
        DBOS.destroy()


async def all_of_them(url: str, count: int) -> float:
    """Workflows per second, from the first begin to the last end."""
    await _process(url, 1)  # makes the tables
    times = await asyncio.gather(*(_process(url, count // PROCESSES) for _ in range(PROCESSES)))
    return count / (max(ended for _, ended in times) - min(began for began, _ in times))


async def _process(url: str, count: int) -> tuple[float, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.benchmarks.peers.dbos_workflows",
        url,
        str(count),
        "one",
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError("a process of DBOS failed")
    began, ended = out.decode().split()[-2:]
    return float(began), float(ended)


def main() -> None:
    """With a third argument, one of the processes."""
    if len(sys.argv) == 4:
        one(sys.argv[1], int(sys.argv[2]))
    else:
        print(asyncio.run(all_of_them(sys.argv[1], int(sys.argv[2]))))


if __name__ == "__main__":
    main()
