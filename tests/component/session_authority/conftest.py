"""The ledger on a real PostgreSQL: one server per worker, one database per test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from tests.component.session_authority.authority import Authority
from tests.component.session_authority.server import SERVICE_PASSWORD, Server
from tests.support.embedded import running_postgres

from herma.common.postgres.migrations import migrate
from herma.local.platform import SCHEMAS

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with an empty database and a migrated one to copy."""
    with running_postgres() as url:
        server = Server(url)
        asyncio.run(_prepare(server))
        yield server


async def _prepare(server: Server) -> None:
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
