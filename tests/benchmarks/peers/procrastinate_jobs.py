"""procrastinate's jobs per second: deferred one by one, run by two worker processes that do nothing.

Source: procrastinate's documentation, "Quickstart" and "Launch a worker": a job is a row, deferred in a
transaction of its own and marked as succeeded when its task returns.
"""

from __future__ import annotations

import asyncio
import sys
import time

import procrastinate
import psycopg

WORKERS = 2
CONCURRENCY = 16


def make_app(url: str) -> procrastinate.App:
    """An app with one task."""
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=2, max_size=10)
    app = procrastinate.App(connector=connector)

    @app.task(name="nothing", pass_context=False)
    async def nothing(number: int) -> None:
        pass

    return app


async def work(url: str) -> None:
    """A worker, until it is stopped."""
    app = make_app(url)
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


async def flood(url: str, count: int) -> float:
    """Jobs per second, from the first deferral to the last success."""
    app = make_app(url)
    async with app.open_async(), await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
        found = await admin.execute("SELECT to_regclass('procrastinate_jobs')")
        if (await found.fetchone())[0] is None:  # type: ignore[index]  # one row
            await app.schema_manager.apply_schema_async()
        workers = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.benchmarks.peers.procrastinate_jobs", url
            )
            for _ in range(WORKERS)
        ]
        try:
            await _run(app, admin, 40)  # the workers are up
            return await _run(app, admin, count)
        finally:
            for worker in workers:
                worker.terminate()
            await asyncio.gather(*(worker.wait() for worker in workers))


async def _run(app: procrastinate.App, admin: psycopg.AsyncConnection[tuple[int]], count: int) -> float:
    numbers = iter(range(count))

    async def defer() -> None:
        for number in numbers:
            await app.configure_task("nothing").defer_async(number=number)

    began = time.monotonic()
    await asyncio.gather(*(defer() for _ in range(CONCURRENCY)))
    while True:
        found = await admin.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        )
        if (await found.fetchone())[0] == 0:  # type: ignore[index]  # one row
            return count / (time.monotonic() - began)
        await asyncio.sleep(0.02)


def main() -> None:
    """Without a count, a worker."""
    if len(sys.argv) == 2:
        asyncio.run(work(sys.argv[1]))
    else:
        print(asyncio.run(flood(sys.argv[1], int(sys.argv[2]))))


if __name__ == "__main__":
    main()
