"""Every operation of the OpenAPI document, tried by everybody who may not: nothing read, nothing written.

Tenant A does everything once, so that it is there to be read; what answers A nothing fails the suite, for
then its silence to others would prove nothing.  Then the others try the same with A's ids.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from herma.session_authority.domain.rights import SCOPES_OF, Role
from tests.conftest import platform_for
from tests.e2e.isolation.operations import Known, Operation, Request, operations_of, request_for
from tests.support.model_server import ScriptedModelServer, text
from tests.support.platform import TestPlatform
from tests.support.waiting import eventually

# In everything private that A says or names.
MARK = "only-of-a"
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|never-[0-9a-f]{8}"
    r"|\d{4}-\d\d-\d\dT[0-9:.+Z]*|[0-9a-f]{32,64}|herma_\w+"
)


@dataclass(frozen=True)
class Answer:
    """A status and what was said."""

    status: int
    body: str

    def like(self, request: Request) -> tuple[int, str]:
        """Without what differs from request to request: ids, times, and what was asked for."""
        said = self.body
        asked = [*request.path.split("/"), *request.params.values(), *(request.body or {}).values()]
        for value in asked:
            if isinstance(value, str) and len(value) > 4:
                said = said.replace(value, "~")
        return self.status, _VARYING.sub("~", said)


class Somebody:
    """A caller."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def ask(self, request: Request) -> Answer:
        """Sends a request; of a stream, what it begins with."""
        with self.http.stream(
            request.operation.method, request.path, params=request.params, json=request.body
        ) as response:
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                return Answer(response.status_code, next(response.iter_text(), ""))
            return Answer(response.status_code, response.read().decode())

    def make(self, path: str, **body: object) -> dict[str, Any]:
        """Makes something."""
        answer = self.http.post(path, json=body)
        assert answer.status_code in (200, 201, 202), answer.text
        made: dict[str, Any] = answer.json()
        return made


class World:
    """Tenant A with something of everything, tenant B, and others who are not A."""

    def __init__(self, platform: TestPlatform) -> None:
        self.platform = platform
        self.url = platform.up_file["http"]
        self.operator = Somebody(self.url, platform.admin_key)
        self.a, self.a_key, self.tenant = self._tenant()
        self.b, _, _ = self._tenant()
        self.nobody = Somebody(self.url, "")
        self.operations = operations_of(self.nobody.http.get("/openapi.json").json())
        self.known = Known()
        self._live()

    def _tenant(self) -> tuple[Somebody, str, str]:
        made = self.operator.make("/v1/tenants", name=f"t{uuid.uuid4().hex[:10]}")
        return Somebody(self.url, made["key"]), made["key"], made["tenant"]["id"]

    def _live(self) -> None:
        """A does what is to be tried later, with its mark on what is private."""
        session = self.a.make("/v1/sessions", title=MARK)
        turn = self.a.make(f"/v1/sessions/{session['id']}/messages", content=f"HI {MARK}")
        self.known.values["session_id"], self.known.values["turn_id"] = session["id"], turn["turn_id"]
        applied = self.a.http.put("/v1/profiles/clerk", json={"persona": MARK, "access": "granted"})
        assert applied.status_code == 201
        self.known.values["profile"] = self.known.values["name"] = self.known.values["model"] = "clerk"
        self.known.values["key_id"] = self.a.make("/v1/keys", name=MARK, scopes=["read"])["id"]

    def owner_of(self, operation: Operation) -> Somebody:
        """Who may do it."""
        return self.operator if "platform" in operation.scopes else self.a

    def rows(self) -> str:
        """All that the database has of A."""
        tables = self.platform.sql(
            "",
            "SELECT table_schema, table_name FROM information_schema.columns"
            " WHERE column_name = 'tenant_id' AND table_schema IN ('authority', 'memory', 'sandbox')"
            " AND table_name NOT IN ('audit', 'audit_heads') ORDER BY 1, 2",
        )
        found = {}
        for schema, table in tables:
            rows = self.platform.sql(
                "",
                f"SELECT (to_jsonb(t) - 'last_used_at')::text FROM {schema}.{table} t"
                f" WHERE tenant_id = '{self.tenant}' ORDER BY 1",
            )
            found[f"{schema}.{table}"] = [row[0] for row in rows]
        return json.dumps(found, indent=0)


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer() as server:
        server.on("HI", text(f"An answer {MARK}."))
        server.on("Hello", text("Hello."))
        server.on("sample-", text("A sample."))
        yield server


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    yield from platform_for(model, "local")


@pytest.fixture(scope="module")
def lived(platform: TestPlatform) -> World:
    return alive(World(platform))


def alive(world: World) -> World:
    """A has done everything that removes nothing, and got an answer to all of it."""
    waiting = [one for one in world.operations if one.method != "DELETE"]
    while waiting:
        left = []
        for operation in waiting:
            request = request_for(operation, world.known)
            if request is None:
                left.append(operation)
                continue
            answer = world.owner_of(operation).ask(request)
            assert 200 <= answer.status < 300, f"{operation} answers A {answer}: cover it"
            if answer.body.startswith("{"):
                world.known.learn(operation, json.loads(answer.body))
        assert len(left) < len(waiting), f"nothing is known for {[str(one) for one in left]}"
        waiting = left

    async def is_idle() -> bool:
        found = world.platform.sql(
            "",
            "SELECT count(*) FROM authority.turns WHERE ended_at IS NULL"
            f" AND tenant_id = '{world.tenant}'",
        )
        return bool(found[0][0] == 0)

    asyncio.run(eventually(is_idle, "A is idle"))
    return world


def attempts(world: World, known: Known) -> Iterator[tuple[Operation, Request]]:
    # Reading first: what others make under A's names is theirs.
    for operation in sorted(world.operations, key=lambda one: one.method != "GET"):
        request = request_for(operation, known)
        assert request is not None, f"nothing is known for {operation}: cover it"
        yield operation, request


def test_another_tenant_cannot_tell_what_is_as_from_what_never_was(lived: World) -> None:
    before = lived.rows()
    strangers = lived.known.strangers()
    for (operation, mine), (_, nobodys) in zip(
        attempts(lived, lived.known), attempts(lived, strangers), strict=True
    ):
        answer, other = lived.b.ask(mine), lived.b.ask(nobodys)
        assert answer.like(mine) == other.like(nobodys), str(operation)
        assert MARK not in answer.body, str(operation)
        if "platform" in operation.scopes:
            assert answer.status == 403, str(operation)
    assert lived.rows() == before


@pytest.mark.parametrize("role", list(Role))
def test_a_colleague_has_its_role_and_no_more(lived: World, role: Role) -> None:
    made = lived.a.make("/v1/principals", subject=f"{role}-{uuid.uuid4().hex[:6]}", role=role)
    key = lived.a.make("/v1/keys", principal_id=made["id"])
    colleague = Somebody(lived.url, key["secret"])
    private = lived.platform.sql
    query = (
        "SELECT (SELECT string_agg(t::text, ',' ORDER BY id) FROM authority.turns t"
        "         WHERE session_id = '{0}'),"
        "       (SELECT string_agg(m::text, ',' ORDER BY position) FROM authority.messages m"
        "         WHERE session_id = '{0}'),"
        "       (SELECT s::text FROM authority.sessions s WHERE id = '{0}')"
    ).format(lived.known.values["session_id"])
    before = private("", query)
    held = SCOPES_OF[role] | ({"read"} if "agent" in SCOPES_OF[role] else set())
    for operation, request in attempts(lived, lived.known):
        is_private = operation.collection == "sessions"
        if operation.method == "DELETE" and not is_private and operation.scopes <= held:
            # What belongs to the tenant may go.
            continue
        answer = colleague.ask(request)
        if not operation.scopes <= held:
            assert answer.status == 403, f"{operation} {answer}"
        if not operation.path.startswith(("/v1/audit", "/v1/profiles", "/v1/keys")):
            assert MARK not in answer.body, str(operation)
        if "session_id" in operation.parameters or "turn_id" in operation.parameters:
            assert answer.status in (403, 404), f"{operation} {answer}"
    assert private("", query) == before


def test_keys_that_do_not_work_open_nothing(lived: World) -> None:
    spare = lived.a.make("/v1/keys", name="revoked")
    assert lived.a.http.delete(f"/v1/keys/{spare['id']}").status_code == 200
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    expired = lived.a.make("/v1/keys", name="expired", expires_at=past)
    robot = lived.a.make("/v1/principals", subject=f"gone-{uuid.uuid4().hex[:6]}", role="owner")
    disabled = lived.a.make("/v1/keys", principal_id=robot["id"])
    assert lived.a.http.patch(f"/v1/principals/{robot['id']}", json={"disabled": True}).status_code == 200
    turn_token = stolen_turn_token(lived)
    before = lived.rows()
    for name, key in {
        "none": "",
        "revoked": spare["secret"],
        "expired": expired["secret"],
        "of a disabled principal": disabled["secret"],
        "cut": lived.a_key[:-1],
        "another's end": lived.a_key[:20] + spare["secret"][20:],
        "a prefix": spare["prefix"],
        "a turn token": turn_token,
        "not ASCII": "herma_\u00e4",
    }.items():
        if not key.isascii():
            continue
        visitor = Somebody(lived.url, key)
        for operation, request in attempts(lived, lived.known):
            answer = visitor.ask(request)
            assert answer.status == 401, f"{operation} by a key that is {name}: {answer}"
            assert MARK not in answer.body
    assert lived.rows() == before


def test_a_may_remove_what_others_could_not(platform: TestPlatform) -> None:
    own = alive(World(platform))
    for operation, request in attempts(own, own.known):
        if operation.method == "DELETE":
            answer = own.owner_of(operation).ask(request)
            assert 200 <= answer.status < 300, f"{operation} answers A {answer}: cover it"


def stolen_turn_token(world: World) -> str:
    """A token that session-authority could have given to a runner for A's turn."""
    from herma.common.turn_token import TurnIdentity, TurnTokenSigner

    secrets = json.loads((world.platform.data / "secrets.json").read_text())
    signer = TurnTokenSigner(secrets["turn_token_key"].encode())
    known = world.known.values
    identity = TurnIdentity(
        tenant_id=uuid.UUID(world.tenant),
        session_id=uuid.UUID(known["session_id"]),
        turn_id=uuid.UUID(known["turn_id"]),
        profile_id=uuid.uuid4(),
        principal_id=uuid.UUID(known.get("principal_id", str(uuid.uuid4()))),
        trust="trusted",
        epoch=1,
        expires_at=int(datetime.now(UTC).timestamp()) + 3600,
    )
    return signer.sign(identity)
