"""A PostgreSQL server of the tests, and its databases."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

SERVICE_PASSWORD = "of-the-services"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, by its superuser's URL."""

    url: str

    def admin_url(self, database: str) -> str:
        """The superuser's URL of a database."""
        return f"{self.url.rpartition('/')[0]}/{database}"

    def service_url(self, database: str, schema: str = "authority") -> str:
        """A service's URL of a database."""
        address = self.url.rpartition("@")[2].partition("/")[0]
        return f"postgresql://herma_{schema}_service:{SERVICE_PASSWORD}@{address}/{database}"

    async def create(self, database: str, template: str = "template1") -> None:
        """Makes a database."""
        await self._execute(f"CREATE DATABASE {database} TEMPLATE {template}")

    async def drop(self, database: str) -> None:
        """Drops a database, whoever is still connected."""
        await self._execute(f"DROP DATABASE {database} WITH (FORCE)")

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
