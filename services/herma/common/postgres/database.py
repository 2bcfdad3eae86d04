"""Transactions.

Invariant: every statement of a service runs in a transaction opened here, which sets the tenant for
row-level security as part of opening it.  A transaction without a tenant sees no tenant's rows.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import asyncpg

from herma.common.errors import Unavailable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
    Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
else:
    Connection = object
    Pool = object

# What a server says that is starting, stopping, or gone.
_AWAY = (
    OSError,
    ssl.SSLError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    # What a connection says that died in the middle of a statement.
    asyncpg.InternalClientError,
)


class Database:
    """A pool of connections of one service's role.

    Args:
        url: PostgreSQL URL.
        size: Connections at most.
        acquire_timeout: Seconds to wait for a free connection before `Unavailable`.
    """

    def __init__(self, url: str, *, size: int = 10, acquire_timeout: float = 5.0) -> None:
        self._url = url
        self._size = size
        self._acquire_timeout = acquire_timeout
        self._pool: Pool | None = None

    async def open(self) -> None:
        """Prepares the pool.  Connects lazily, so a database that is away does not stop a start."""
        self._pool = await asyncpg.create_pool(
            self._url,
            min_size=0,
            max_size=self._size,
            max_inactive_connection_lifetime=300,
            reset=_keep,
            init=_use_json,
            timeout=5.0,
            # A server that died in mid-statement may leave a connection that never says so.
            command_timeout=10.0,
        )

    async def close(self) -> None:
        """Closes the pool, abruptly if connections are still in use after 5 s."""
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        try:
            async with asyncio.timeout(5):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    @asynccontextmanager
    async def transaction(
        self, tenant_id: UUID | None = None, *, first: str = ""
    ) -> AsyncIterator[Connection]:
        """One transaction: committed at the end of the block, rolled back by an exception.

        Args:
            tenant_id: Whose rows are visible; None sees no tenant's rows.
            first: A statement without parameters, run in the round trip that begins the transaction;
                its rows are not to be had.

        Raises:
            Unavailable: when the database is away.  Whether the transaction took effect is then
                unknown: repeat it under its idempotency key, step or epoch.
        """
        async with self._connection() as connection:
            await connection.execute(_begin(tenant_id, first))
            try:
                yield connection
            except BaseException:
                if not connection.is_closed():
                    await connection.execute("ROLLBACK")
                raise
            await connection.execute("COMMIT")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        pool = self._pool
        if pool is None:
            raise Unavailable("the database pool is closed")
        try:
            async with pool.acquire(timeout=self._acquire_timeout) as connection:
                yield connection
        except _AWAY as error:
            if isinstance(error, ValueError):
                raise  # an argument that asyncpg cannot encode: our mistake, not the server's
            raise Unavailable("the database does not answer", retry_after=1) from error

    async def glance(self, tenant_id: UUID, query: str, *arguments: object) -> Sequence[asyncpg.Record]:
        """Rows of one tenant in one round trip instead of three; writes nothing.

        Args:
            query: A `SELECT` with a condition on `seen.tenant_id`, which is what sets the tenant: a
                subquery that depends on it can only run after it.  `$1` is taken.

        Raises:
            Unavailable: when the database is away.
        """
        async with self._connection() as connection:
            return await connection.fetch(_GLANCE.format(query), str(tenant_id), *arguments)

    async def notify(self, notifications: Collection[tuple[str, str]]) -> None:
        """Sends notifications, (channel, payload) each: a transaction of one statement.

        It writes nothing, so it waits for no disk.

        Raises:
            Unavailable: when the database is away.
        """
        channels, payloads = zip(*notifications, strict=True)
        async with self._connection() as connection:
            await connection.execute(
                "SELECT pg_notify(c, p) FROM unnest($1::text[], $2::text[]) AS r (c, p)",
                channels,
                payloads,
            )

    async def ping(self) -> None:
        """Asks the server for a sign of life.

        Raises:
            Unavailable: without one.
        """
        async with self.transaction() as connection:
            await connection.execute("SELECT 1")


# The setting is local to the statement's own transaction.  `OFFSET 0` keeps the planner from taking the
# subquery apart and looking at the tenant's rows before the tenant is set.
_GLANCE = """WITH seen AS MATERIALIZED (
        SELECT set_config('herma.tenant_id', $1, true)::uuid AS tenant_id
    )
    SELECT found.* FROM seen CROSS JOIN LATERAL ({} OFFSET 0) AS found
"""


def _begin(tenant_id: UUID | None, first: str) -> str:
    statements = ["BEGIN"]
    if tenant_id is not None:
        # A UUID's text needs no quoting.
        statements.append(f"SET LOCAL herma.tenant_id = '{UUID(int=tenant_id.int)}'")
    if first:
        statements.append(first)
    return "; ".join(statements)


async def see_tenant(connection: Connection, tenant_id: UUID) -> None:
    """Sets the tenant of a transaction that had to find out whose rows it wants."""
    await connection.execute("SELECT set_config('herma.tenant_id', $1, true)", str(tenant_id))


async def _keep(_connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Nothing here changes a server session's state, so a used connection needs no reset."""


async def _use_json(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
