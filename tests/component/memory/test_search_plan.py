"""Searching uses the index under row-level security, whichever plan PostgreSQL settles on."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import asyncpg
import pytest
from tests.component.memory.service import Memory
from tests.component.session_authority.server import Server

from herma.memory.domain.scope import scope_of


async def test_the_search_function_uses_the_index(server: Server, memory: Memory) -> None:
    turn = memory.turn()
    for start in range(0, 400, 20):
        await asyncio.gather(*(turn.remember(f"common item{n} thing") for n in range(start, start + 20)))
    scope = scope_of(turn.identity)
    connection = await asyncpg.connect(server.admin_url("memories"))
    plans: list[str] = []
    connection.add_log_listener(lambda _connection, message: plans.append(str(message.message)))
    try:
        await connection.execute(
            "ANALYZE memory.facts; LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
            "SET auto_explain.log_nested_statements = on; SET client_min_messages = log;"
            "SET ROLE herma_memory_service"
        )
        await connection.execute(f"SET herma.tenant_id = '{scope.tenant_id}'")
        for number in range(8):  # beyond five, a generic plan may be taken
            plans.clear()
            found = await connection.fetch(
                "SELECT memory.propose_facts($1, $2, $3, 500) AS id",
                scope.profile_id,
                scope.principal_id,
                scope.keys_of([f"item{number}", "nothing"]),
            )
            assert len(found) == 1
            plan = next(text for text in plans if "FROM facts" in text)
            assert "Bitmap Index Scan on facts_keys" in plan, plan
            assert "Seq Scan" not in plan, plan
        for tenant in (str(uuid4()), ""):
            await connection.execute(f"SET herma.tenant_id = '{tenant}'")
            assert not await connection.fetch(
                "SELECT memory.propose_facts($1, $2, $3, 500)",
                scope.profile_id,
                scope.principal_id,
                scope.keys_of(["common"]),
            )
    finally:
        await connection.close()


async def test_only_memory_may_search_and_the_searcher_reads_no_text(server: Server) -> None:
    connection = await asyncpg.connect(server.admin_url("memories"))
    try:
        public = await connection.fetchval(
            "SELECT has_function_privilege('public', p.oid, 'execute') FROM pg_proc p"
            " WHERE p.proname = 'propose_facts'"
        )
        assert public is False
        await connection.execute("SET ROLE herma_memory_crosser")
        for statement in (
            "SELECT text FROM memory.facts",
            "UPDATE memory.facts SET trust = 1",
            "DELETE FROM memory.facts",
            "SELECT 1 FROM memory.notes",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()
