"""A PostgreSQL server of its own for tests and measurements that need no platform."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from herma.local.postgres import EmbeddedPostgres
from herma.local.processes import dies_with_parent
from tests.support.ports import take_port
from tests.support.waiting import eventually


@contextmanager
def running_postgres(*options: str) -> Iterator[str]:
    """Starts a server on a random port; its superuser's URL.  It is gone afterwards, with its data."""
    with tempfile.TemporaryDirectory(prefix="herma-test-", ignore_cleanup_errors=True) as folder:
        postgres = EmbeddedPostgres(Path(folder) / "postgres", take_port(), "superuser")
        postgres.prepare()
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                [*postgres.argv(), "-c", "fsync=off", *options],
                stdout=log,
                stderr=log,
                preexec_fn=dies_with_parent(signal.SIGINT),
            )
        try:
            asyncio.run(_answers(postgres))
            yield postgres.url
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _answers(postgres: EmbeddedPostgres) -> None:
    await eventually(postgres.answers, "PostgreSQL answers")
