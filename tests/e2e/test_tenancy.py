"""What is not yours does not exist, and only keys that work open anything."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import asyncpg
import httpx
import pytest

from tests.conftest import platform_for
from tests.support.model_server import ScriptedModelServer, text
from tests.support.platform import TestPlatform
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    model.on("PLAIN", text("plain answer"))
    yield from platform_for(model, "local")


async def test_another_tenant_sees_nothing(platform: TestPlatform) -> None:
    other = json.loads(
        platform.herma("tenant", "create", f"t{uuid.uuid4().hex[:8]}", "-o", "json").stdout
    )
    async with platform.client() as a, platform.client(other["key"]) as b:
        session = await a.session()
        admitted = await a.submit(session, "PLAIN")
        await a.ended(admitted["turn_id"])
        never = str(uuid.uuid4())
        for path in (
            "/v1/sessions/{}",
            "/v1/sessions/{}/messages",
            "/v1/sessions/{}/events?turn=" + admitted["turn_id"],
            "/v1/turns/{}",
        ):
            known = admitted["turn_id"] if "turns" in path else session
            assert (await a.http.get(path.format(known))).status_code == 200
            foreign = await b.http.get(path.format(known))
            missing = await b.http.get(path.format(never))
            assert foreign.status_code == missing.status_code == 404
            assert foreign.json() == missing.json()
        for path in ("/v1/sessions/{}/messages", "/v1/turns/{}/interrupt"):
            known = admitted["turn_id"] if "turns" in path else session
            foreign = await b.http.post(path.format(known), json={"content": "x"})
            missing = await b.http.post(path.format(never), json={"content": "x"})
            assert foreign.status_code == missing.status_code == 404
            assert foreign.json() == missing.json()
        key = (await a.http.post("/v1/keys", json={})).json()
        foreign = await b.http.delete(f"/v1/keys/{key['id']}")
        missing = await b.http.delete(f"/v1/keys/{never}")
        assert foreign.status_code == missing.status_code == 404
        assert foreign.json() == missing.json()
        assert (await a.http.delete(f"/v1/keys/{key['id']}")).status_code == 200
        assert (await b.http.get("/v1/sessions")).json()["items"] == []
        assert (await b.http.post("/v1/tenants", json={"name": "mine"})).status_code == 403


async def test_service_roles_see_no_row_without_a_tenant(platform: TestPlatform) -> None:
    secrets = json.loads((platform.data / "secrets.json").read_text())
    address = next(s["address"] for s in platform.up_file["services"] if s["name"] == "postgres")
    looked = 0
    for role, password in secrets["database"].items():
        if role == "superuser":
            continue
        connection = await asyncpg.connect(
            f"postgresql://herma_{role}_service:{password}@{address}/postgres"
        )
        try:
            tables = await connection.fetch(
                "SELECT c.relname, c.relforcerowsecurity FROM pg_class c"
                " WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r'"
                " AND c.relname <> 'schema_migrations'",
                role,
            )
            for table in tables:
                assert table["relforcerowsecurity"], table["relname"]
                looked += 1
                count = await connection.fetchval(f"SELECT count(*) FROM {role}.{table['relname']}")
                assert count == 0, table["relname"]
            for schema in ("authority", "sandbox", "memory"):
                if schema != role:
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        await connection.fetch(f"SELECT * FROM {schema}.schema_migrations")
        finally:
            await connection.close()
    assert looked >= 16


async def test_keys_that_do_not_work_are_refused(platform: TestPlatform) -> None:
    async with platform.client() as owner:
        made = (await owner.http.post("/v1/keys", json={"name": "t", "scopes": ["agent"]})).json()
        async with platform.client(made["secret"]) as client:
            assert (await client.http.get("/v1/sessions")).status_code == 200
            assert (await client.http.post("/v1/keys", json={})).status_code == 403
            assert (await owner.http.delete(f"/v1/keys/{made['id']}")).status_code == 200

            async def refused() -> bool:
                return (await client.http.get("/v1/sessions")).status_code == 401

            await eventually(refused, "the revoked key stops working", 10)
        twice = [
            await owner.http.post("/v1/keys", json={}, headers={"Idempotency-Key": made["id"]})
            for _ in range(2)
        ]
        assert [response.status_code for response in twice] == [201, 409]
        assert twice[1].json()["reason"] == "ALREADY_EXISTS"
        listed = (await owner.http.get("/v1/keys")).json()["items"]
        assert made["secret"] not in json.dumps(listed)
    for header in ("", "Bearer", "Bearer nonsense", "Basic abc", "Bearer herma_aaaaaaaa_" + "x" * 43):
        headers = {"Authorization": header} if header else {}
        async with httpx.AsyncClient(base_url=platform.up_file["http"], headers=headers) as stranger:
            response = await stranger.get("/v1/sessions")
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert response.json()["reason"] in ("API_KEY_MISSING", "API_KEY_INVALID")
