"""The ledger on a real PostgreSQL: one server per worker, one database per test."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.component.session_authority.authority import Authority
from tests.component.session_authority.server import SERVICE_PASSWORD, Server
from tests.support.ports import take_port
from tests.support.waiting import eventually

from herma.common.postgres.migrations import migrate
from herma.local.platform import SCHEMAS
from herma.local.postgres import EmbeddedPostgres
from herma.local.processes import dies_with_parent

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with an empty database and a migrated one to copy."""
    with tempfile.TemporaryDirectory(prefix="herma-test-", ignore_cleanup_errors=True) as folder:
        postgres = EmbeddedPostgres(Path(folder) / "postgres", take_port(), "superuser")
        postgres.prepare()
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                [*postgres.argv(), "-c", "fsync=off"],
                stdout=log,
                stderr=log,
                preexec_fn=dies_with_parent(signal.SIGINT),
            )
        try:
            asyncio.run(_prepare(postgres))
            yield Server(postgres.url)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _prepare(postgres: EmbeddedPostgres) -> None:
    await eventually(postgres.answers, "PostgreSQL answers")
    server = Server(postgres.url)
    await server.create("migrated")
    for schema in SCHEMAS:
        await migrate(server.admin_url("migrated"), schema, SERVICE_PASSWORD)


@pytest.fixture
async def empty_database(server: Server) -> AsyncIterator[str]:
    """The administrator's URL of a database without a schema."""
    name = f"empty_{next(_NUMBERS)}"
    await server.create(name)
    yield server.admin_url(name)
    await server.drop(name)


@pytest.fixture
async def authority(server: Server) -> AsyncIterator[Authority]:
    """The stores of a session-authority on a fresh database."""
    name = f"ledger_{next(_NUMBERS)}"
    await server.create(name, "migrated")
    admin = await asyncpg.connect(server.admin_url(name))
    authority = Authority(admin, server.service_url(name))
    await authority.database.open()
    writing = asyncio.create_task(authority.deltas.run())
    yield authority
    writing.cancel()
    await authority.database.close()
    await admin.close()
    await server.drop(name)
