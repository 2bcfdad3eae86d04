"""Bad input gets a clear answer, and reaches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.component.gateway.conftest import Gateway
from tests.component.gateway.wire_authority import WireAuthority

from herma.common.errors import (
    HermaError,
    IdempotencyConflict,
    Internal,
    InvalidArgument,
    ResourceExhausted,
)

_JSON = {"Content-Type": "application/json"}


def _problem(answer: httpx.Response, status: int, reason: str) -> dict[str, object]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, object] = answer.json()
    assert document["status"] == status
    assert document["reason"] == reason
    assert {"type", "title", "detail"} <= document.keys()
    return document


async def test_a_body_over_the_limit_is_refused(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    path = f"/v1/sessions/{authority.session_id}/messages"
    _problem(await client.post(path, json={"content": "x" * 10_000_000}), 413, "BODY_TOO_LARGE")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    _problem(await client.post(path, content=chunks(), headers=_JSON), 413, "BODY_TOO_LARGE")
    assert authority.requests == []


async def test_a_refused_client_that_writes_first_and_reads_later_still_gets_the_answer(
    gateway: Gateway,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    body = b"x" * 10_000_000
    writer.write(b"POST /v1/sessions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body))
    writer.write(body)
    await writer.drain()
    await asyncio.sleep(0.2)
    assert (await reader.read()).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_client_that_expects_leave_is_refused_before_it_sends(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    writer.write(
        b"POST /v1/sessions HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n"
        b"Expect: 100-continue\r\n\r\n"
    )
    async with asyncio.timeout(1):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in answer
    writer.close()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"content": ', "INVALID_JSON"),
        (b"\xff\xfe{}", "INVALID_JSON"),
        (b"[" * 33 + b"]" * 33, "JSON_TOO_DEEP"),
        (b'{"content":' * 200_000 + b"1", "BODY_TOO_LARGE"),
        (b"", "INVALID_ARGUMENT"),
        (b"[]", "INVALID_ARGUMENT"),
        (b"null", "INVALID_ARGUMENT"),
        (b'{"content": 5}', "INVALID_ARGUMENT"),
        (b'{"content": NaN}', "INVALID_ARGUMENT"),
        (b'{"content": "\\ud800"}', "INVALID_ARGUMENT"),
        (b'{"content": "x", "\\ud800": 1}', "INVALID_ARGUMENT"),
    ],
)
async def test_a_malformed_body_is_named_as_such(
    client: httpx.AsyncClient, authority: WireAuthority, body: bytes, reason: str
) -> None:
    path = f"/v1/sessions/{authority.session_id}/messages"
    answer = await client.post(path, content=body, headers=_JSON)
    _problem(answer, 413 if reason == "BODY_TOO_LARGE" else 400, reason)
    assert authority.requests == []


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2027-01-01T00:00:00", "soon"]
)
async def test_a_key_cannot_expire_outside_of_time(
    client: httpx.AsyncClient, authority: WireAuthority, moment: str
) -> None:
    answer = await client.post("/v1/keys", json={"expires_at": moment})
    assert _problem(answer, 400, "INVALID_ARGUMENT")["errors"]
    assert authority.requests == []


async def test_brackets_inside_strings_do_not_nest(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    path = f"/v1/sessions/{authority.session_id}/messages"
    assert (await client.post(path, json={"content": '\\"[' * 100})).status_code == 202


async def test_unknown_fields_are_named(client: httpx.AsyncClient, authority: WireAuthority) -> None:
    path = f"/v1/sessions/{authority.session_id}/messages"
    answer = await client.post(path, json={"content": "x", "contents": 1, "body": 2, "k" * 5000: 3})
    errors = _problem(answer, 400, "INVALID_ARGUMENT")["errors"]
    assert errors == [
        {"field": name, "detail": "is not a known field"} for name in ("contents", "body", "k" * 100)
    ]
    many = await client.post(path, json={"content": "x", **{f"f{i}": i for i in range(10_000)}})
    assert len(many.content) < 10_000


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/", 404, "NOT_FOUND"),
        ("GET", "/v1/nothing", 404, "NOT_FOUND"),
        ("GET", "/docs", 404, "NOT_FOUND"),
        ("POST", "/v1/sessions/", 404, "NOT_FOUND"),
        ("PUT", "/v1/sessions", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/v1/sessions?page_size=0", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/sessions?page_size=many", 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/sessions/not-an-id", 404, "SESSION_NOT_FOUND"),
        ("GET", "/v1/sessions/%00%ff", 404, "SESSION_NOT_FOUND"),
        ("GET", "/v1/turns/not-an-id", 404, "TURN_NOT_FOUND"),
    ],
)
async def test_every_refusal_is_a_problem(
    client: httpx.AsyncClient, method: str, path: str, status: int, reason: str
) -> None:
    _problem(await client.request(method, path), status, reason)


async def test_what_never_was_and_what_is_no_id_answer_alike(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    never = authority.turn_id
    for suffix in ("", "/events"):
        bodies = {
            (await client.get(f"/v1/sessions/{text}{suffix}")).content for text in (never, "nonsense")
        }
        assert len(bodies) == 1
    turn = await client.get(f"/v1/sessions/{authority.session_id}/events?turn={authority.session_id}")
    assert turn.content == (await client.get(f"/v1/turns/{authority.session_id}")).content


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (InvalidArgument("no", fields={"content": "must not be empty"}), 400),
        (IdempotencyConflict("used"), 409),
        (ResourceExhausted("full", retry_after=2.5), 429),
        (Internal("broken"), 500),
        (RuntimeError("a secret of the authority"), 500),
    ],
)
async def test_the_authoritys_refusals_keep_their_reason(
    client: httpx.AsyncClient, authority: WireAuthority, failure: Exception, status: int
) -> None:
    authority.failure = failure
    answer = await client.post("/v1/sessions", json={})
    reason = failure.reason if isinstance(failure, HermaError) else "INTERNAL"
    document = _problem(answer, status, reason)
    assert "a secret" not in answer.text
    if status == 400:
        assert document["errors"] == [{"field": "content", "detail": "must not be empty"}]
    if status == 429:
        assert answer.headers["retry-after"] == "3"
