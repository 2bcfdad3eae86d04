"""Who acts: service accounts with roles, people by tokens of a real OpenID Connect provider."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REQUIRED, platform_for
from tests.support.model_server import ScriptedModelServer, slow, text
from tests.support.oidc_issuer import new_key
from tests.support.oidc_provider import PEOPLE, OidcProvider
from tests.support.platform import Client, TestPlatform
from tests.support.ports import take_port
from tests.support.waiting import eventually

AUDIENCE = "https://herma.example/api"

needs_node = pytest.mark.skipif(
    not REQUIRED and shutil.which("npm") is None, reason="needs Node.js and npm"
)


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer() as server:
        server.on("SLOWLY", slow("word " * 400, 0.1))
        server.on("HI", text("Hello."))
        yield server


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    yield from platform_for(model, "local", HERMA_EGRESS_ALLOWED_NETWORKS="127.0.0.0/8")


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    served = OidcProvider(take_port(), {"kim": ["ops", "staff"], "alex": ["staff"]})
    served.start(new_key("first"))
    yield served
    served.stop()


def herma(platform: TestPlatform, *arguments: str) -> Any:
    return json.loads(platform.herma(*arguments, "-o", "json").stdout)


async def who(client: Client) -> dict[str, Any]:
    answer = await client.http.get("/v1/whoami")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_service_account_does_what_its_role_may(platform: TestPlatform) -> None:
    robot = herma(platform, "principal", "add", "robot", "--role", "member", "--name", "Robbie")
    key = herma(platform, "key", "create", "--principal", robot["id"], "--name", "ci")
    async with platform.client(key["secret"]) as client:
        me = await who(client)
        assert (me["principal"]["id"], me["principal"]["role"]) == (robot["id"], "member")
        assert me["key"]["id"] == key["id"]
        assert "principals" not in me["scopes"]
        session = await client.session()
        assert await client.answer(session, "HI") == "Hello."
        for path in ("/v1/principals", "/v1/grants", "/v1/issuers", "/v1/tenants"):
            assert (await client.http.get(path)).status_code == 403, path
        herma(platform, "principal", "set-role", robot["id"], "viewer")

        async def may_not_write() -> bool:
            return (await client.http.post("/v1/sessions", json={})).status_code == 403

        await eventually(may_not_write, "the role is noticed")
        assert (await client.http.get(f"/v1/sessions/{session}")).status_code == 200
        herma(platform, "principal", "disable", robot["id"])

        async def is_nobody() -> bool:
            return (await client.http.get("/v1/whoami")).status_code == 401

        await eventually(is_nobody, "the principal is nobody")


async def test_a_key_is_rotated_with_overlap(platform: TestPlatform) -> None:
    made = herma(platform, "key", "create", "--name", "old", "--scope", "read")
    rotated = herma(platform, "key", "rotate", made["id"], "--overlap", "0")
    assert rotated["scopes"] == ["read"]
    assert rotated["rotated"]["id"] == made["id"]
    async with platform.client(rotated["secret"]) as new, platform.client(made["secret"]) as old:
        assert (await who(new))["key"]["id"] == rotated["id"]

        async def is_over() -> bool:
            return (await old.http.get("/v1/whoami")).status_code == 401

        await eventually(is_over, "the old key is over")
    listed = {key["id"]: key for key in herma(platform, "key", "ls")}
    assert listed[rotated["id"]]["last_used_at"]


async def test_a_closed_profile_is_for_those_with_a_grant(platform: TestPlatform) -> None:
    async with platform.client() as owner:
        answer = await owner.http.put("/v1/profiles/secretive", json={"access": "granted"})
        assert answer.status_code == 201
    clerk = herma(platform, "principal", "add", "clerk")
    key = herma(platform, "key", "create", "--principal", clerk["id"])
    async with platform.client(key["secret"]) as client:

        async def models() -> set[str]:
            return {model["id"] for model in (await client.http.get("/v1/models")).json()["data"]}

        assert "secretive" not in await models()
        assert (await client.http.post("/v1/sessions", json={"profile": "secretive"})).status_code == 404
        grant = herma(platform, "grant", "add", clerk["id"], "secretive")
        assert "secretive" in await models()
        session = await client.session(profile="secretive")
        assert [one["id"] for one in herma(platform, "grant", "ls", "--principal", clerk["id"])] == [
            grant["id"]
        ]
        platform.herma("grant", "rm", grant["id"])
        refused = await client.http.post(f"/v1/sessions/{session}/messages", json={"content": "HI"})
        assert (refused.status_code, refused.json()["reason"]) == (403, "RIGHT_MISSING")


@needs_node
async def test_people_and_programs_enter_by_a_real_provider(
    platform: TestPlatform, provider: OidcProvider
) -> None:
    groups = ("--role-claim", "groups", "--role", "ops=operator", "--role", "staff=member")
    for audience, roles in ((PEOPLE, groups), (AUDIENCE, ("--default-role", "viewer"))):
        herma(platform, "issuer", "add", provider.url, "--audience", audience, *roles)
    kim, alex = provider.token_of_person("kim"), provider.token_of_person("alex")
    async with platform.client(kim) as first, platform.client(alex) as second:
        me = await who(first)
        principal = me["principal"]
        assert (principal["subject"], principal["issuer"]) == ("kim", provider.url)
        assert (principal["name"], principal["role"]) == ("The user kim", "operator")
        assert me["key"] is None
        session = await first.session()
        assert await first.answer(session, "HI") == "Hello."
        assert (await who(second))["principal"]["role"] == "member"
        assert (await second.http.get(f"/v1/sessions/{session}")).status_code == 404
        # Its keys are bounded by its role, and there is no key that it presents.
        made = await first.http.post("/v1/keys", json={"name": "mine"})
        assert "usage" in made.json()["scopes"]
        assert "principals" not in made.json()["scopes"]
    async with platform.client(provider.token_of_program(AUDIENCE)) as program:
        me = await who(program)
        assert (me["principal"]["subject"], me["principal"]["role"]) == ("herma-programs", "viewer")
        assert (await program.http.post("/v1/sessions", json={})).status_code == 403
    async with platform.client(provider.token_of_program("https://elsewhere.example")) as stray:
        assert (await stray.http.get("/v1/whoami")).status_code == 401


@needs_node
async def test_an_open_stream_ends_when_its_bearer_is_nobody(
    platform: TestPlatform, provider: OidcProvider
) -> None:
    herma(platform, "issuer", "add", provider.url, "--audience", PEOPLE, "--default-role", "member")
    async with platform.client(provider.token_of_person("kim")) as client:
        session = await client.session()
        await client.submit(session, "SLOWLY")
        seen: list[str] = []

        async def watch() -> None:
            async for event in client.events(session):
                seen.append(event["event"])

        watching = asyncio.create_task(watch())
        await eventually(lambda: "message.started" in seen, "the stream is open")
        principal = (await who(client))["principal"]["id"]
        herma(platform, "principal", "disable", principal)
        async with asyncio.timeout(35):
            await watching
        # The turn was asked to stop, so it is not answered either.
        assert "message.completed" not in seen


@needs_node
async def test_a_provider_changes_its_keys(platform: TestPlatform, provider: OidcProvider) -> None:
    herma(platform, "issuer", "add", provider.url, "--audience", PEOPLE, "--default-role", "member")
    old = provider.token_of_person("kim")
    async with platform.client(old) as client:
        await who(client)
    provider.start(new_key("second"))
    new = provider.token_of_person("kim")
    async with platform.client(new) as client:

        async def enters() -> bool:
            return (await client.http.get("/v1/whoami")).status_code == 200

        await eventually(enters, "the new key is known")
    async with platform.client(old) as client:

        async def is_over() -> bool:
            return (await client.http.get("/v1/whoami")).status_code == 401

        await eventually(is_over, "the old key is not")


async def test_what_was_done_is_audited_and_checked(platform: TestPlatform, tmp_path: Path) -> None:
    robot = herma(platform, "principal", "add", "audited")
    key = herma(platform, "key", "create", "--principal", robot["id"])
    async with platform.client(key["secret"]) as client:
        assert (await client.http.get("/v1/audit")).status_code == 403
        # A member may edit profiles only where a grant says so.
        refused = await client.http.put("/v1/profiles/mine", json={})
        assert refused.status_code == 403
    newest = herma(platform, "audit", "ls", "--limit", "3")
    assert [(record["action"], record["outcome"]) for record in newest] == [
        ("profile.applied", "refused"),
        ("key.created", "done"),
        ("principal.created", "done"),
    ]
    assert len(newest[0]["trace_id"]) == 32
    checked = herma(platform, "audit", "verify")
    assert checked["holds"]
    export = tmp_path / "audit.jsonl"
    export.write_text(platform.herma("audit", "export").stdout)
    assert herma(platform, "audit", "verify", str(export))["records"] == checked["records"]
    lines = export.read_text().splitlines()
    export.write_text("\n".join([*lines[:-2], lines[-1]]))
    broken = platform.herma("audit", "verify", str(export), check=False)
    assert broken.returncode == 1
    assert "does not hold" in broken.stdout
