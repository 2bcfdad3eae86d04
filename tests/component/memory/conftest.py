"""memory on a real PostgreSQL: one database, each test in scopes of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.component.memory.service import Memory, served
from tests.component.session_authority.server import SERVICE_PASSWORD, Server
from tests.support.embedded import running_postgres

from herma.common.postgres.migrations import migrate
from herma.memory.app import SCHEMA


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with a migrated database `memories`."""
    with running_postgres() as url:
        server = Server(url)
        asyncio.run(_prepare(server))
        yield server


async def _prepare(server: Server) -> None:
    await server.create("memories")
    await migrate(server.admin_url("memories"), SCHEMA, SERVICE_PASSWORD)


@pytest.fixture(scope="session")
def database_url(server: Server) -> str:
    """As the service connects."""
    return server.service_url("memories", "memory")


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    """memory, served."""
    async with served(database_url) as memory:
        yield memory
