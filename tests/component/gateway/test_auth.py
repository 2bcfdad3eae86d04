"""Who may call."""

from __future__ import annotations

import httpx
import pytest
from tests.component.gateway.wire_authority import WireAuthority


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, "API_KEY_MISSING"),
        ("", "API_KEY_MISSING"),
        ("Bearer", "API_KEY_MISSING"),
        ("Basic Z29vZDo=", "API_KEY_MISSING"),
        ("good", "API_KEY_MISSING"),
        ("Bearer wrong", "API_KEY_INVALID"),
        ("Bearer good good", "API_KEY_INVALID"),
        ("Bearer \xff\xfe", "API_KEY_INVALID"),
    ],
)
async def test_a_request_without_a_working_key_is_refused(
    anonymous: httpx.AsyncClient, header: str | None, reason: str
) -> None:
    headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]
    answer = await anonymous.get("/v1/sessions", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["reason"] == reason


@pytest.mark.parametrize("header", ["Bearer good", "bearer good", "BEARER  good"])
async def test_the_scheme_is_read_without_case(
    anonymous: httpx.AsyncClient, authority: WireAuthority, header: str
) -> None:
    path = f"/v1/sessions/{authority.session_id}"
    assert (await anonymous.get(path, headers={"Authorization": header})).status_code == 200


async def test_a_key_in_the_address_is_no_key(anonymous: httpx.AsyncClient) -> None:
    assert (await anonymous.get("/v1/sessions?api_key=good&key=good")).status_code == 401


async def test_a_key_does_only_what_its_scopes_say(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    refused = await client.post("/v1/tenants", json={"name": "acme"})
    assert (refused.status_code, refused.json()["reason"]) == (403, "SCOPE_MISSING")
    root = {"Authorization": "Bearer root"}
    for method, path in (
        ("GET", f"/v1/sessions/{authority.session_id}"),
        ("GET", f"/v1/sessions/{authority.session_id}/events"),
        ("GET", f"/v1/turns/{authority.turn_id}"),
        ("GET", "/v1/keys"),
    ):
        assert (await client.request(method, path, headers=root)).status_code == 403, path
    made = await client.post("/v1/tenants", json={"name": "acme"}, headers=root)
    assert made.status_code == 201
    assert made.json() == {"tenant": {"id": "t1", "name": "acme"}, "key": "secret"}


async def test_a_key_revoked_here_stops_working_at_once(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    path = f"/v1/sessions/{authority.session_id}"
    assert (await client.get(path)).status_code == 200
    assert (await client.delete(f"/v1/keys/{authority.key_id}")).status_code == 200
    assert (await client.get(path)).status_code == 401
