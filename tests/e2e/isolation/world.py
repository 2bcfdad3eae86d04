"""Tenants A and B on a real platform, and A's life in it."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from herma.common.turn_token import TurnIdentity, TurnTokenSigner
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
        self.a, self.a_key, self.tenant = self.new_tenant()
        self.b, _, _ = self.new_tenant()
        self.nobody = Somebody(self.url, "")
        self.operations = operations_of(self.nobody.http.get("/openapi.json").json())
        self.known = Known()
        self._live()

    def new_tenant(self) -> tuple[Somebody, str, str]:
        """Its owner, the owner's key, and its id."""
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
        robot = self.a.make("/v1/principals", subject="robot")
        self.known.values["principal_id"] = robot["id"]
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


def turn_token(world: World, *, epoch: int = 1, seconds: int = 3600, pem: bytes = b"") -> str:
    """A token that session-authority could have given to a runner for A's turn.

    Args:
        epoch: Of the lease; A's turn is over, so any is fenced off.
        seconds: Until it expires.
        pem: Another key to sign with.
    """
    secrets = json.loads((world.platform.data / "secrets.json").read_text())
    signer = TurnTokenSigner(pem or secrets["turn_token_key"].encode())
    known = world.known.values
    identity = TurnIdentity(
        tenant_id=uuid.UUID(world.tenant),
        session_id=uuid.UUID(known["session_id"]),
        turn_id=uuid.UUID(known["turn_id"]),
        profile_id=uuid.uuid4(),
        principal_id=uuid.uuid4(),
        trust="trusted",
        epoch=epoch,
        expires_at=int(datetime.now(UTC).timestamp()) + seconds,
    )
    return signer.sign(identity)


@contextmanager
def speaking_model() -> Iterator[ScriptedModelServer]:
    """A model that answers what A, and samples, say."""
    with ScriptedModelServer() as server:
        server.on("HI", text(f"An answer {MARK}."))
        server.on("Hello", text("Hello."))
        server.on("sample-", text("A sample."))
        yield server
