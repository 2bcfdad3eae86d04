"""Migrations: each file once, in order, never changed."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from herma.common.postgres.migrations import MigrationRefused, ServiceSchema, migrate
from herma.local.platform import SCHEMAS

_NUMBERS = count(1)


@pytest.fixture
def schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceSchema:
    """A schema whose files are in a folder of the test's."""
    package = f"scratch_package_{next(_NUMBERS)}"
    (tmp_path / package / "migrations").mkdir(parents=True)
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return ServiceSchema("scratch", package)


@pytest.fixture
def files(tmp_path: Path, schema: ServiceSchema) -> Path:
    """Where its files are, with the first one."""
    folder = tmp_path / schema.package / "migrations"
    (folder / "0001_things.sql").write_text("CREATE TABLE things (id integer PRIMARY KEY);")
    return folder


async def _tables(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'scratch'")
        return {row["tablename"] for row in rows}
    finally:
        await connection.close()


@pytest.mark.parametrize("service", SCHEMAS, ids=lambda service: service.schema)
async def test_the_second_time_is_a_no_op(empty_database: str, service: ServiceSchema) -> None:
    assert await migrate(empty_database, service, None) == [
        migration.version for migration in service.migrations()
    ]
    assert await migrate(empty_database, service, None) == []


async def test_several_at_once_apply_each_file_once(empty_database: str) -> None:
    applied = await asyncio.gather(
        *(migrate(empty_database, service, None) for _ in range(4) for service in SCHEMAS)
    )
    expected = [migration.version for service in SCHEMAS for migration in service.migrations()]
    assert sorted(version for versions in applied for version in versions) == sorted(expected)


async def test_a_changed_file_is_refused(empty_database: str, schema: ServiceSchema, files: Path) -> None:
    await migrate(empty_database, schema, None)
    (files / "0001_things.sql").write_text("CREATE TABLE things (id bigint PRIMARY KEY);")
    (files / "0002_more.sql").write_text("CREATE TABLE more (id integer);")
    with pytest.raises(MigrationRefused, match="changed"):
        await migrate(empty_database, schema, None)
    assert await _tables(empty_database) == {"things", "schema_migrations"}


async def test_a_newer_database_is_refused(
    empty_database: str, schema: ServiceSchema, files: Path
) -> None:
    (files / "0002_more.sql").write_text("CREATE TABLE more (id integer);")
    await migrate(empty_database, schema, None)
    (files / "0002_more.sql").unlink()
    with pytest.raises(MigrationRefused, match="newer"):
        await migrate(empty_database, schema, None)


async def test_a_file_that_fails_leaves_what_came_before(
    empty_database: str, schema: ServiceSchema, files: Path
) -> None:
    broken = files / "0002_more.sql"
    broken.write_text("CREATE TABLE more (id integer); SELECT 1 / 0;")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty_database, schema, None)
    assert await _tables(empty_database) == {"things", "schema_migrations"}
    broken.write_text("CREATE TABLE more (id integer);")
    assert await migrate(empty_database, schema, None) == [2]


@pytest.mark.parametrize("name", ["0003_gap.sql", "2_short.sql", "0002_Name.sql"])
async def test_a_name_out_of_order_is_refused(schema: ServiceSchema, files: Path, name: str) -> None:
    (files / name).write_text("SELECT 1;")
    with pytest.raises(MigrationRefused):
        schema.migrations()
