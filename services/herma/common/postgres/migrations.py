"""Migrations: numbered SQL files per service, each applied once, in order, in its own transaction.

The runner connects as an administrator.  It makes the roles of a schema first:

- `<prefix>_owner`, NOLOGIN: owns the schema and its tables;
- `<prefix>_crosser`, NOLOGIN, no BYPASSRLS: owns the few SECURITY DEFINER functions that look across
  tenants, under policies of its own;
- `<prefix>_service`, LOGIN: what the service connects as; owns nothing.

A file is applied as the owner (`SET LOCAL ROLE`), so what it creates is the owner's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import asyncpg

from herma.common.errors import HermaError

_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")


class MigrationRefused(HermaError):
    """The database cannot be brought to this release's schema."""

    reason = "MIGRATION_REFUSED"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text: an applied file must never change."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ServiceSchema:
    """A service's schema: where its files lie and what its roles are called."""

    schema: str
    package: str

    @property
    def owner(self) -> str:
        """Role that owns the tables."""
        return f"herma_{self.schema}_owner"

    @property
    def crosser(self) -> str:
        """Role that owns the functions across tenants."""
        return f"herma_{self.schema}_crosser"

    @property
    def service(self) -> str:
        """Role that the service connects as."""
        return f"herma_{self.schema}_service"

    def migrations(self) -> list[Migration]:
        """The files of this release, in order.

        Raises:
            MigrationRefused: for a gap or a name that is no migration's.
        """
        found = []
        for entry in resources.files(self.package).joinpath("migrations").iterdir():
            if not entry.name.endswith(".sql"):
                continue
            match = _NAME.fullmatch(entry.name)
            if match is None:
                raise MigrationRefused(f"{entry.name} is not named NNNN_name.sql")
            found.append(Migration(int(match["version"]), match["name"], entry.read_text("utf-8")))
        found.sort(key=lambda migration: migration.version)
        if [migration.version for migration in found] != list(range(1, len(found) + 1)):
            raise MigrationRefused(f"the migrations of {self.schema} have a gap")
        return found


async def migrate(admin_url: str, schema: ServiceSchema, service_password: str | None) -> list[int]:
    """Brings one schema up to date; safe to run from several places at once.

    Args:
        admin_url: URL of a role that may create roles and schemas.
        service_password: Password to set for the service's role; None leaves it.

    Returns:
        The versions that were applied now.

    Raises:
        MigrationRefused: when an applied file was changed, or the database is of a newer release.
    """
    connection = await asyncpg.connect(admin_url, timeout=30)
    try:
        # Roles belong to the cluster, so the lock must too: all databases of it share this number.
        await connection.execute("SELECT pg_advisory_lock(7305161)")
        await _make_roles(connection, schema, service_password)
        return await _apply(connection, schema)
    finally:
        await connection.close()


async def _make_roles(
    connection: asyncpg.Connection[asyncpg.Record], schema: ServiceSchema, password: str | None
) -> None:
    existing = {row["rolname"] for row in await connection.fetch("SELECT rolname FROM pg_roles")}
    for role, kind in (
        (schema.owner, "NOLOGIN"),
        (schema.crosser, "NOLOGIN"),
        (schema.service, "LOGIN"),
    ):
        if role not in existing:
            try:
                await connection.execute(
                    f"CREATE ROLE {role} {kind} NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE"
                )
                if role == schema.service:
                    # Its statements find rows by key: planning them anew for other values costs as
                    # much as running them.
                    await connection.execute(
                        f"ALTER ROLE {role} SET plan_cache_mode = force_generic_plan"
                    )
            except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
                pass  # another database of the same cluster was migrated at the same moment
    if password is not None:
        quoted = await connection.fetchval("SELECT quote_literal($1::text)", password)
        await connection.execute(f"ALTER ROLE {schema.service} PASSWORD {quoted}")
    await connection.execute(f"GRANT {schema.owner}, {schema.crosser} TO CURRENT_USER")
    await connection.execute(
        f"CREATE SCHEMA IF NOT EXISTS {schema.schema} AUTHORIZATION {schema.owner};"
        f"GRANT USAGE ON SCHEMA {schema.schema} TO {schema.service};"
        f"GRANT USAGE, CREATE ON SCHEMA {schema.schema} TO {schema.crosser};"
        f"GRANT {schema.crosser} TO {schema.owner};"
        f"CREATE TABLE IF NOT EXISTS {schema.schema}.schema_migrations ("
        " version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now())"
    )


async def _apply(connection: asyncpg.Connection[asyncpg.Record], schema: ServiceSchema) -> list[int]:
    files = schema.migrations()
    applied = {
        row["version"]: row["checksum"]
        for row in await connection.fetch(
            f"SELECT version, checksum FROM {schema.schema}.schema_migrations"  # noqa: S608
        )
    }
    _check_history(schema, files, applied)
    now = []
    for migration in files:
        if migration.version in applied:
            continue
        async with connection.transaction():
            await connection.execute(
                f"SET LOCAL ROLE {schema.owner}; SET LOCAL search_path = {schema.schema}, pg_temp"
            )
            await connection.execute(migration.sql)
            await connection.execute("RESET ROLE")
            await connection.execute(
                f"INSERT INTO {schema.schema}.schema_migrations (version, name, checksum)"  # noqa: S608
                " VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.checksum,
            )
        now.append(migration.version)
    return now


def _check_history(schema: ServiceSchema, files: Sequence[Migration], applied: dict[int, str]) -> None:
    known = {migration.version: migration for migration in files}
    for version, checksum in applied.items():
        migration = known.get(version)
        if migration is None:
            raise MigrationRefused(
                f"schema {schema.schema} has migration {version} of a newer release of Herma"
            )
        if migration.checksum != checksum:
            raise MigrationRefused(
                f"migration {version} of schema {schema.schema} was changed after it was applied"
            )
