"""Deleting sessions, listing keys, and profiles over HTTP."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import httpx
import pytest
from tests.component.gateway.wire_authority import WireAuthority

from herma.api.identity.v1 import identity_pb2
from herma.api.profile.v1 import profile_pb2
from herma.common.errors import ProfileChanged

EDITOR = {"Authorization": "Bearer editor"}


async def test_a_deleted_session_answers_nothing(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    answer = await client.delete(f"/v1/sessions/{authority.session_id}")
    assert (answer.status_code, answer.content) == (204, b"")
    missing = await client.delete(f"/v1/sessions/{authority.turn_id}")
    nonsense = await client.delete("/v1/sessions/nonsense")
    assert missing.status_code == nonsense.status_code == 404
    assert missing.content == nonsense.content
    root = {"Authorization": "Bearer root"}
    refused = await client.delete(f"/v1/sessions/{authority.session_id}", headers=root)
    assert (refused.status_code, refused.json()["reason"]) == (403, "SCOPE_MISSING")


async def test_keys_are_listed_with_all_that_may_be_shown(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    moments = [datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2, 3)]
    full = identity_pb2.Key(id="k1", name="ci", prefix="herma_abcdefgh", scopes=["agent", "keys"])
    full.principal_id, full.created_by = "p1", "p2"
    for field, at in zip(("created_at", "expires_at", "revoked_at"), moments, strict=True):
        getattr(full, field).FromDatetime(at)
    authority.listed = [full, identity_pb2.Key(id="k2", prefix="herma_ijklmnop")]
    answer = (await client.get("/v1/keys")).json()
    assert answer["items"][0] == {
        "id": "k1",
        "name": "ci",
        "prefix": "herma_abcdefgh",
        "scopes": ["agent", "keys"],
        "created_at": "2026-01-01T00:00:00Z",
        "expires_at": "2026-02-01T00:00:00Z",
        "revoked_at": "2026-03-01T00:00:00Z",
        "last_used_at": None,
        "principal_id": "p1",
        "created_by": "p2",
    }
    assert answer["items"][1]["expires_at"] is answer["items"][1]["revoked_at"] is None
    assert answer["next_page_token"] == ""


async def test_profiles_are_read_with_fields_of_newer_releases(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    page = (await client.get("/v1/profiles?page_size=1&page_token=abc")).json()
    assert (authority.requests[0].page_size, authority.requests[0].page_token) == (1, "abc")
    assert page["next_page_token"] == "more"
    one = await client.get("/v1/profiles/one?version=3")
    assert one.headers["etag"] == '"3"'
    assert authority.requests[1].version == 3
    assert one.json() == page["items"][0]
    assert one.json()["spec"] == {
        "description": "",
        "persona": "p",
        "model": "",
        "tools": ["terminal"],
        "max_iterations": 7,
        "access": "tenant",
        "newer": {"x": 1},
    }
    missing = await client.get("/v1/profiles/two")
    assert (missing.status_code, missing.json()["reason"]) == (404, "PROFILE_NOT_FOUND")


@pytest.mark.parametrize(
    ("outcome", "status", "word"),
    [
        (profile_pb2.OUTCOME_CREATED, 201, "created"),
        (profile_pb2.OUTCOME_UPDATED, 200, "updated"),
        (profile_pb2.OUTCOME_UNCHANGED, 200, "unchanged"),
    ],
)
async def test_applying_says_what_it_did(
    client: httpx.AsyncClient, authority: WireAuthority, outcome: int, status: int, word: str
) -> None:
    authority.outcome = profile_pb2.Outcome.Name(outcome)
    answer = await client.put("/v1/profiles/one", json={"persona": "grüß 🜂"}, headers=EDITOR)
    assert (answer.status_code, answer.json()["outcome"]) == (status, word)
    assert answer.headers["etag"] == '"3"'
    (request,) = authority.requests
    assert json.loads(request.spec) == {
        "description": "",
        "persona": "grüß 🜂",
        "model": "",
        "tools": None,
        "max_iterations": 50,
        "access": "tenant",
    }
    assert (request.name, request.expected_version) == ("one", 0)


@pytest.mark.parametrize("header", ['"12"', "12"])
async def test_an_expected_version_is_passed_on(
    client: httpx.AsyncClient, authority: WireAuthority, header: str
) -> None:
    headers = {**EDITOR, "If-Match": header}
    assert (await client.put("/v1/profiles/one", json={}, headers=headers)).status_code == 200
    assert authority.requests[0].expected_version == 12
    authority.failure = ProfileChanged("profile 'one' is at version 13, not 12")
    answer = await client.put("/v1/profiles/one", json={}, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (412, "PROFILE_CHANGED")
    assert "13" in answer.json()["detail"]


@pytest.mark.parametrize("header", ["*", "x", '"0"', "-1", "1" * 10, 'W/"1"'])
async def test_an_expectation_that_is_no_version_is_refused(
    client: httpx.AsyncClient, authority: WireAuthority, header: str
) -> None:
    answer = await client.put("/v1/profiles/one", json={}, headers={**EDITOR, "If-Match": header})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "if-match")
    assert authority.requests == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"personna": "x"}, "personna"),
        ({"toolsets": ["core"]}, "toolsets"),
        ({"persona": "x" * 20_001}, "persona"),
        ({"persona": 1}, "persona"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"max_iterations": "5"}, "max_iterations"),
        ({"tools": "terminal"}, "tools"),
        ({"tools": [1]}, "tools.0"),
    ],
)
async def test_a_malformed_profile_reaches_nothing(
    client: httpx.AsyncClient, authority: WireAuthority, body: dict[str, object], field: str
) -> None:
    answer = await client.put("/v1/profiles/one", json=body, headers=EDITOR)
    assert answer.status_code == 400
    assert [problem["field"] for problem in answer.json()["errors"]] == [field]
    assert authority.requests == []


async def test_changing_needs_a_scope_and_reading_another(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    refused = await client.put("/v1/profiles/one", json={})
    assert (refused.status_code, refused.json()["reason"]) == (403, "SCOPE_MISSING")
    for path in ("/v1/profiles", "/v1/profiles/one"):
        assert (await client.get(path, headers=EDITOR)).status_code == 403
    assert authority.requests == []
