"""What row-level security got wrong elsewhere, field by field: each has a test here.

Rules are read from the catalogue: a table, index, view or function that is added later is held to them.
"""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from tests.component.session_authority.authority import Authority

from herma.session_authority.domain.keys import key_hash

SCHEMAS = ["authority", "sandbox", "memory"]
# Unique in the whole installation, on purpose: secrets and names by which a tenant is found, and requests
# of runners, which belong to none.
ACROSS_TENANTS = {
    "authority.api_keys_hash",
    "authority.issuers_once",
    "authority.leases_request",
    "authority.tenants_name_key",
    "authority.tenants_pkey",
}


async def catalogue(authority: Authority, query: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await authority.admin.fetch(query, SCHEMAS)]


@pytest.mark.parametrize("setting", ["", "''", "'  '", "'not-a-uuid'"])
async def test_an_unset_or_odd_setting_sees_nothing(authority: Authority, setting: str) -> None:
    await authority.claimed()
    async with authority.database.transaction() as connection:
        if setting:
            await connection.execute(f"SET LOCAL herma.tenant_id = {setting}")
        try:
            found = await connection.fetchval("SELECT count(*) FROM authority.turns")
        except asyncpg.DataError:
            found = 0  # refused as no id: nothing was seen
            await connection.execute("ROLLBACK; BEGIN")
        assert found == 0


async def test_a_setting_does_not_outlive_its_transaction(authority: Authority) -> None:
    caller, _ = await authority.claimed()
    # More transactions than connections: each of them is used again.
    for _ in range(30):
        async with authority.database.transaction(caller.tenant_id) as connection:
            assert await connection.fetchval("SELECT count(*) FROM authority.turns") == 1
        async with authority.database.transaction() as connection:
            assert await connection.fetchval("SELECT count(*) FROM authority.turns") == 0


async def test_services_are_neither_owners_nor_above_policies(authority: Authority) -> None:
    async with authority.database.transaction() as connection:
        row = await connection.fetchrow(
            "SELECT current_user AS name, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb,"
            " pg_has_role(current_user, 'herma_authority_owner', 'MEMBER') AS is_owner,"
            " pg_has_role(current_user, 'herma_authority_crosser', 'MEMBER') AS is_crosser"
            " FROM pg_roles WHERE rolname = current_user"
        )
    assert row is not None
    assert row["name"] == "herma_authority_service"
    assert not any(value for name, value in row.items() if name != "name")


async def test_unique_keys_are_of_one_tenant(authority: Authority) -> None:
    rows = await catalogue(
        authority,
        """
        SELECT n.nspname || '.' || i.relname AS name,
               EXISTS (SELECT FROM unnest(x.indkey) k JOIN pg_attribute a
                       ON a.attrelid = x.indrelid AND a.attnum = k
                       WHERE a.attname = 'tenant_id') AS has_tenant
        FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
        JOIN pg_class t ON t.oid = x.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
        WHERE n.nspname = ANY ($1) AND x.indisunique AND t.relname <> 'schema_migrations'
        """,
    )
    assert len(rows) > 20
    assert {row["name"] for row in rows if not row["has_tenant"]} == ACROSS_TENANTS


async def test_references_stay_within_a_tenant(authority: Authority) -> None:
    rows = await catalogue(
        authority,
        """
        SELECT c.conname AS name, c.confrelid::regclass::text AS target,
               (SELECT bool_or(a.attname = 'tenant_id') FROM unnest(c.conkey) k
                JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k) AS has_tenant
        FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
        JOIN pg_namespace n ON n.oid = t.relnamespace
        WHERE c.contype = 'f' AND n.nspname = ANY ($1)
        """,
    )
    assert len(rows) > 10
    assert [row for row in rows if not row["has_tenant"]] == []


async def test_views_obey_who_asks(authority: Authority) -> None:
    query = """
        SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY ($1) AND c.relkind IN ('v', 'm')
          AND NOT coalesce('security_invoker=true' = ANY (c.reloptions)
                           OR 'security_invoker=on' = ANY (c.reloptions), false)
    """
    assert await catalogue(authority, query) == []
    # The rule is no empty one: a view that does not obey is found.
    await authority.admin.execute("CREATE VIEW authority.leaky AS SELECT * FROM authority.turns")
    assert await catalogue(authority, query) == [{"name": "leaky"}]


async def test_nothing_of_ours_is_everybodys(authority: Authority) -> None:
    rows = await catalogue(
        authority,
        """
        SELECT p.proname AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = ANY ($1) AND p.prosecdef
          AND has_function_privilege('public', p.oid, 'EXECUTE')
        """,
    )
    assert rows == []


async def test_a_hostile_search_path_leads_definer_functions_nowhere(authority: Authority) -> None:
    owner = await authority.owner()
    stranger = await authority.owner("other")
    async with authority.database.transaction() as connection:
        # What a session can make for itself: tables and operators of the same names, looked for first.
        await connection.execute(
            """
            CREATE TEMP TABLE api_keys (tenant_id uuid, id uuid, hash bytea) ON COMMIT DROP;
            CREATE TEMP TABLE tenants (id uuid, name text) ON COMMIT DROP;
            CREATE TEMP TABLE sessions (tenant_id uuid, id uuid, runnable_since timestamptz,
                                        runnable_class smallint) ON COMMIT DROP;
            SET LOCAL search_path = pg_temp, public, authority;
            """
        )
        await connection.execute(
            "INSERT INTO pg_temp.api_keys VALUES ($1, $2, $3)",
            stranger.caller.tenant_id,
            stranger.key_id,
            key_hash(owner.key),
        )
        await connection.execute(
            "INSERT INTO pg_temp.tenants VALUES ($1, 'acme')", stranger.caller.tenant_id
        )
        found = await connection.fetchrow(
            "SELECT tenant_id, key_id FROM authority.key_owner($1)", key_hash(owner.key)
        )
        assert found is not None
        assert found["tenant_id"] == owner.caller.tenant_id
        named = await connection.fetchval("SELECT authority.tenant_named('acme')")
        assert named == owner.caller.tenant_id
