"""What a submission passes on."""

from __future__ import annotations

import httpx
import pytest
from tests.component.gateway.wire_authority import WireAuthority


async def test_a_message_answers_where_to_follow_it(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    answer = await client.post(
        f"/v1/sessions/{authority.session_id}/messages", json={"content": "grüß 🜂"}
    )
    assert answer.status_code == 202
    assert answer.json() == {
        "turn_id": authority.turn_id,
        "session_id": authority.session_id,
        "seq": 7,
        "cursor": 7,
    }
    (request,) = authority.requests
    assert (request.content, request.mode, request.idempotency_key) == ("grüß 🜂", "queue", "")


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/v1/sessions", {}, "good"),
        ("/v1/sessions/{id}/messages", {"content": "x"}, "good"),
        ("/v1/tenants", {"name": "acme"}, "root"),
    ],
)
async def test_the_idempotency_key_reaches_the_authority(
    client: httpx.AsyncClient, authority: WireAuthority, path: str, body: dict[str, str], key: str
) -> None:
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "once / 1"}
    path = path.format(id=authority.session_id)
    assert (await client.post(path, json=body, headers=headers)).status_code < 300
    assert authority.requests[0].idempotency_key == "once / 1"


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
async def test_an_unusable_idempotency_key_is_refused(
    client: httpx.AsyncClient, authority: WireAuthority, key: str
) -> None:
    answer = await client.post("/v1/sessions", json={}, headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].lower() == "idempotency-key"
    assert authority.requests == []


async def test_a_turn_shows_its_states_in_words(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    turn = (await client.get(f"/v1/turns/{authority.turn_id}")).json()
    assert turn["state"] == "running"
    assert turn["calls"][0]["state"] == "outcome_unknown"
    assert turn["ended_at"] is None
    assert {"id", "session_id", "exit_reason", "attempt", "usage", "trace_id", "error"} <= turn.keys()
