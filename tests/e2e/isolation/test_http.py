"""Every operation of the OpenAPI document, tried by everybody who may not: nothing read, nothing written.

Tenant A does everything once, so that it is there to be read; what answers A nothing fails the suite, for
then its silence to others would prove nothing.  Then the others try the same with A's ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from herma.session_authority.domain.rights import SCOPES_OF, Role
from tests.e2e.isolation.operations import Known, Operation, Request, request_for
from tests.e2e.isolation.world import MARK, Somebody, World, alive, turn_token
from tests.support.platform import TestPlatform


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
    before = lived.rows()
    for name, key in {
        "none": "",
        "revoked": spare["secret"],
        "expired": expired["secret"],
        "of a disabled principal": disabled["secret"],
        "cut": lived.a_key[:-1],
        "another's end": lived.a_key[:20] + spare["secret"][20:],
        "a prefix": spare["prefix"],
        "a turn token": turn_token(lived),
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
