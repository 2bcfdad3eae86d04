"""Tenants: what is another's does not exist, and the database sees to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

import asyncpg
import pytest
from tests.component.session_authority.authority import Authority, identity_of, step_of

from herma.common.errors import LeaseLost, NotFound
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.operations import Status

SCHEMAS = ["authority", "sandbox", "memory"]


async def test_what_is_anothers_is_not_found(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    other = await authority.owner("other")
    sessions, session_id, turn_id = authority.sessions, lease.session_id, lease.turn.id
    key_id = (await authority.keys.list(caller))[0].id

    async def follow(stranger: Caller, turn: UUID | None) -> None:
        async for _ in authority.subscriptions.follow(stranger, session_id, 0, turn):
            pass

    strangers = [
        other.caller,
        Caller(caller.tenant_id, other.caller.principal_id),
        Caller(other.caller.tenant_id, caller.principal_id),
    ]
    before = await authority.everything()
    for stranger in strangers:
        attempts: list[Awaitable[object]] = [
            sessions.get(stranger, session_id),
            sessions.messages(stranger, session_id, 0, 100),
            sessions.submit(stranger, session_id, "Hi", "", ""),
            sessions.turn(stranger, turn_id),
            sessions.interrupt(stranger, turn_id),
            authority.deletions.delete(stranger, session_id),
            follow(stranger, None),
            follow(stranger, turn_id),
            authority.keys.revoke(stranger, key_id),
            authority.keys.create(replace(stranger, key_id=key_id), "stolen", [], None),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound):
                await attempt
        assert await sessions.list(stranger, None, 100) == []
    assert await authority.everything() == before


async def test_a_runner_reaches_no_other_tenants_session(authority: Authority) -> None:
    _, lease = await authority.claimed()
    other = await authority.owner("other")
    forged = replace(identity_of(lease), tenant_id=other.caller.tenant_id)
    before = await authority.everything()
    with pytest.raises(LeaseLost):
        await authority.ledger.append(forged, step_of(1, Status("hello")))
    with pytest.raises(LeaseLost):
        await authority.leases.release(forged)
    with pytest.raises(LeaseLost):
        await authority.leases.renew(forged)
    assert await authority.everything() == before


async def test_a_transaction_without_a_tenant_sees_nothing(authority: Authority) -> None:
    await authority.claimed()
    for table in await _tables(authority, "authority"):
        async with authority.database.transaction() as connection:
            assert await connection.fetchval(f"SELECT count(*) FROM authority.{table}") == 0


async def test_a_glance_sees_its_own_tenant_only_and_leaves_none_set(authority: Authority) -> None:
    caller, _ = await authority.claimed()
    other = await authority.owner("other")
    query = "SELECT id FROM authority.turns WHERE tenant_id = seen.tenant_id"
    assert len(await authority.database.glance(caller.tenant_id, query)) == 1
    assert await authority.database.glance(other.caller.tenant_id, query) == []
    # Not even a condition that forgets the tenant reaches further.
    careless = "SELECT id FROM authority.turns WHERE seen.tenant_id IS NOT NULL"
    assert await authority.database.glance(other.caller.tenant_id, careless) == []
    async with authority.database.transaction() as connection:
        assert await connection.fetchval("SELECT count(*) FROM authority.turns") == 0


async def test_a_transaction_sees_and_writes_its_own_tenant_only(authority: Authority) -> None:
    caller, _ = await authority.claimed()
    other = await authority.owner("other")
    tenant = other.caller.tenant_id
    async with authority.database.transaction(tenant) as connection:
        assert await connection.fetchval("SELECT array_agg(id) FROM authority.tenants") == [tenant]
        assert await connection.fetchval("SELECT count(*) FROM authority.turns") == 0
        assert await connection.execute("UPDATE authority.turns SET state = 'failed'") == "UPDATE 0"
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with authority.database.transaction(tenant) as connection:
            await connection.execute(
                "INSERT INTO authority.principals (tenant_id, id, issuer, subject, role)"
                " VALUES ($1, gen_random_uuid(), 'herma', 'intruder', 'owner')",
                caller.tenant_id,
            )


async def test_the_ledger_cannot_be_rewritten_by_its_service(authority: Authority) -> None:
    caller, _ = await authority.claimed()
    for statement in (
        "UPDATE authority.events SET data = '{}'",
        "DELETE FROM authority.events",
        "UPDATE authority.messages SET content = ''",
        "DELETE FROM authority.messages",
        "DELETE FROM authority.turns",
        "DELETE FROM authority.steps",
        "ALTER TABLE authority.events DISABLE ROW LEVEL SECURITY",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with authority.database.transaction(caller.tenant_id) as connection:
                await connection.execute(statement)


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_every_table_of_tenants_forces_row_level_security(
    authority: Authority, schema: str
) -> None:
    rows = await authority.admin.fetch(
        """
        SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AS forced,
               pg_get_userbyid(c.relowner) AS owner
        FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p')
          AND c.relname <> 'schema_migrations'
        """,
        schema,
    )
    assert rows
    assert [row["relname"] for row in rows if not row["forced"]] == []
    assert {row["owner"] for row in rows} == {f"herma_{schema}_owner"}


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_functions_across_tenants_are_nobodys_but_the_services(
    authority: Authority, schema: str
) -> None:
    rows = await authority.admin.fetch(
        """
        SELECT p.proname, p.proconfig, pg_get_userbyid(p.proowner) AS owner,
               ARRAY(SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END
                     FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a) AS callers
        FROM pg_proc p WHERE p.pronamespace = $1::regnamespace AND p.prosecdef
        """,
        schema,
    )
    assert rows or schema != "authority"
    for row in rows:
        # The owner's functions cross nothing: its tables force row-level security on it too.
        owner = "owner" if row["proname"] == "delete_session" else "crosser"
        assert row["proconfig"] == [f"search_path={schema}, pg_temp"], row["proname"]
        assert row["owner"] == f"herma_{schema}_{owner}"
        assert set(row["callers"]) <= {f"herma_{schema}_service", f"herma_{schema}_{owner}"}


async def test_no_role_of_ours_passes_by_row_level_security(authority: Authority) -> None:
    rows = await authority.admin.fetch(
        "SELECT rolname, rolsuper, rolbypassrls, rolcanlogin FROM pg_roles WHERE rolname LIKE 'herma\\_%'"
    )
    names = {row["rolname"] for row in rows}
    assert {f"herma_{schema}_{role}" for schema in SCHEMAS for role in ("owner", "crosser")} <= names
    for row in rows:
        assert not row["rolsuper"]
        assert not row["rolbypassrls"]
        assert row["rolcanlogin"] == row["rolname"].endswith("_service")


@pytest.mark.parametrize("tenant", ["none", "own"])
async def test_who_looks_across_tenants_changes_nothing(authority: Authority, tenant: str) -> None:
    caller, _ = await authority.session()
    before = await authority.everything()
    crosser = _as_crosser(authority, caller if tenant == "own" else None)
    for statement in (
        "UPDATE authority.sessions SET runnable_since = now()",
        "UPDATE authority.sessions SET title = 'mine'",
        "DELETE FROM authority.sessions",
        "UPDATE authority.leases SET epoch = 0",
        "UPDATE authority.turns SET state = 'failed'",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await crosser(statement)
    assert await authority.everything() == before


async def test_who_looks_across_tenants_sees_no_content(authority: Authority) -> None:
    await authority.claimed()
    crosser = _as_crosser(authority, None)
    for statement in (
        "SELECT title FROM authority.sessions",
        "SELECT instructions FROM authority.sessions",
        "SELECT content FROM authority.turns",
        "SELECT content FROM authority.messages",
        "SELECT data FROM authority.events",
        "SELECT name FROM authority.api_keys",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await crosser(statement)


def _as_crosser(authority: Authority, caller: Caller | None) -> Callable[[str], Awaitable[None]]:
    async def execute(statement: str) -> None:
        async with authority.admin.transaction():
            await authority.admin.execute("SET LOCAL ROLE herma_authority_crosser")
            if caller is not None:
                await authority.admin.execute(f"SET LOCAL herma.tenant_id = '{caller.tenant_id}'")
            await authority.admin.execute(statement)

    return execute


async def _tables(authority: Authority, schema: str) -> list[str]:
    rows = await authority.admin.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'"
        " AND relname <> 'schema_migrations'",
        schema,
    )
    return [row["relname"] for row in rows]
