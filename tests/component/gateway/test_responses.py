"""OpenAI's responses, as the gateway serves them."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.component.gateway.conftest import Gateway, until
from tests.component.gateway.wire_authority import WireAuthority
from tests.support.response_shapes import strict_items, strict_response, strict_stream

from herma.api.ledger.v1 import ledger_pb2
from herma.common.errors import (
    DeadlineExceeded,
    IdempotencyConflict,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    SessionGoesOn,
    TurnUnfinished,
)

PATH = "/v1/responses"
ASK: dict[str, Any] = {"model": "default", "input": "Hi"}
STREAM = {**ASK, "stream": True}
USAGE = {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 2, "cache_write_tokens": 4}


@pytest.fixture
async def authority(authority: WireAuthority) -> WireAuthority:
    authority.cursor = 0
    return authority


def response_id(authority: WireAuthority) -> str:
    return f"resp_{authority.turn_id}"


def answer(authority: WireAuthority, content: str) -> None:
    """The turn's answer and its end."""
    authority.add_event("turn.started", attempt=1)
    authority.add_event("message.completed", message_id="m", content=content, finish_reason="stop")
    ended(authority)


def ended(authority: WireAuthority, state: str = "completed", reason: str = "final_answer") -> None:
    """The turn's end."""
    authority.add_event(
        "turn.ended", state=state, exit_reason=reason, usage={**USAGE, "reasoning_tokens": 1}
    )


def events_of(body: str) -> list[Any]:
    """The data of a stream's events."""
    blocks = [block for block in body.split("\n\n") if block and not block.startswith(":")]
    return [json.loads(block.split("\n")[1].removeprefix("data: ")) for block in blocks]


def refusal_of(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["code"] == code
    found: dict[str, Any] = body["error"]
    return found


async def test_a_request_is_one_submission_with_all_that_it_says(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    answer(authority, "Hello")
    body = {
        **ASK,
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
            {"role": "user", "content": "three"},
        ],
        "metadata": {"a": "b"},
        "user": "ann",
        "nonsense": {},
    }
    found = await client.post(PATH, json=body, headers={"Idempotency-Key": "once"})
    assert found.status_code == 200, found.text
    assert found.headers["x-herma-session"] == authority.session_id
    assert found.headers["x-herma-turn"] == authority.turn_id
    response = strict_response(found.json())
    assert response.output_text == "Hello"
    assert response.created_at == int(authority.turn_id.replace("-", "")[:12], 16) // 1000
    assert response.completed_at == 1767323045
    assert found.json()["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 4},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 10,
    }
    submitted, subscribed = authority.requests
    assert (submitted.session_id, submitted.content, submitted.mode) == ("", "three", "queue")
    new = submitted.new_session
    assert (new.profile, new.entrance, new.key) == ("default", "", "")
    assert new.instructions == "Be kind."
    said = [(entry.role, entry.content) for entry in new.history]
    assert said == [("user", "one"), ("assistant", "two")]
    assert (subscribed.session_id, subscribed.turn_id) == (authority.session_id, authority.turn_id)


async def test_a_continuation_is_one_submission(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    answer(authority, "Hello")
    body = {**ASK, "previous_response_id": response_id(authority), "instructions": "Be kind."}
    found = await client.post(PATH, json=body)
    assert found.json()["previous_response_id"] == response_id(authority)
    submitted = authority.requests[0]
    wanted = submitted.continuation
    assert (wanted.turn_id, wanted.profile, wanted.instructions) == (
        authority.turn_id,
        "default",
        "Be kind.",
    )
    assert not submitted.HasField("new_session")
    missing = await client.post(PATH, json={**ASK, "previous_response_id": f"resp_{uuid4()}"})
    error = refusal_of(missing, 404, "previous_response_not_found")
    assert error["param"] == "previous_response_id"


async def test_keys_of_requests_are_told_apart(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    answer(authority, "x")
    bodies = [
        ASK,
        STREAM,
        {**ASK, "temperature": 1},
        {**ASK, "user": "u"},
        {**ASK, "metadata": {"a": "b"}},
        {**ASK, "background": True},
        {**ASK, "instructions": "x"},
        {**ASK, "previous_response_id": response_id(authority)},
        {**ASK, "conversation": authority.session_id},
    ]
    for body in bodies:
        assert (await client.post(PATH, json=body, headers={"Idempotency-Key": "a"})).is_success
    submitted = [r for r in authority.requests if type(r).__name__ == "SubmitRequest"]
    assert len({request.idempotency_key for request in submitted}) == 1
    same, *others = [request.fingerprint for request in submitted][2:]
    assert [request.fingerprint for request in submitted[:2]] == [same, same]
    assert len({same, *others}) == len(others) + 1
    chat = {"model": "default", "messages": [{"role": "user", "content": "Hi"}]}
    await client.post("/v1/chat/completions", json=chat, headers={"Idempotency-Key": "a"})
    assert authority.requests[-2].idempotency_key != submitted[0].idempotency_key


async def test_a_response_in_the_background_is_answered_as_it_stands(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    body = {**ASK, "background": True}
    for state, status in (
        (ledger_pb2.TURN_STATE_QUEUED, "queued"),
        (ledger_pb2.TURN_STATE_RUNNING, "in_progress"),
        (ledger_pb2.TURN_STATE_WAITING, "in_progress"),
    ):
        authority.state = state
        made = await client.post(PATH, json=body)
        assert strict_response(made.json()).status == status
        kept = await client.get(f"{PATH}/{response_id(authority)}")
        assert kept.json() == made.json()
    answer(authority, "Hello")
    authority.state = ledger_pb2.TURN_STATE_COMPLETED
    # Asked for again under its key it is not said to be queued still.
    assert strict_response((await client.post(PATH, json=body)).json()).status == "completed"


async def test_a_client_does_not_notice_that_the_authority_restarts(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    authority.add_delta("one two ")
    reading = asyncio.create_task(client.post(PATH, json=STREAM))
    await until(lambda: authority.subscribers == 1)
    await authority.stop()
    await authority.start()
    authority.add_delta("three", 8)
    authority.add_event("message.completed", message_id="m", content="one two three")
    ended(authority)
    response = strict_stream(events_of((await reading).text))
    assert response is not None
    assert response.output_text == "one two three"


@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_an_answer_ends_when_its_key_is_revoked(
    client: httpx.AsyncClient, authority: WireAuthority, body: dict[str, Any]
) -> None:
    async with asyncio.timeout(5):
        asking = asyncio.create_task(client.post(PATH, json=body))
        await until(lambda: authority.subscribers == 1)
        del authority.keys["good"]
        found = await asking
    if body is ASK:
        refusal_of(found, 401, "invalid_api_key")
    else:
        events = events_of(found.text)
        assert strict_stream(events) is None
        assert events[-1]["code"] == "invalid_api_key"
    await until(lambda: authority.subscribers == 0)


@pytest.mark.parametrize("after", [None, 40])
async def test_a_gateway_that_stops_says_so_under_the_next_number(
    client: httpx.AsyncClient, authority: WireAuthority, gateway: Gateway, after: int | None
) -> None:
    path = f"{PATH}/{response_id(authority)}?stream=true"
    async with asyncio.timeout(5):
        asking = asyncio.create_task(client.get(path + (f"&starting_after={after}" if after else "")))
        await until(lambda: authority.subscribers == 1)
        gateway.stopping.set()
        events = events_of((await asking).text)
    assert events[-1]["code"] == "unavailable"
    assert [event["sequence_number"] for event in events] == ([41] if after else [0, 1])


@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_a_client_that_leaves_takes_only_its_subscription_along(
    gateway: Gateway, authority: WireAuthority, body: dict[str, Any]
) -> None:
    headers = {"Authorization": "Bearer good"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, trust_env=False) as client:
        asking = asyncio.create_task(client.post(PATH, json=body))
        await until(lambda: authority.subscribers == 1)
        asking.cancel()
    await until(lambda: authority.subscribers == 0, 5)
    assert [type(request).__name__ for request in authority.requests] == [
        "SubmitRequest",
        "SubscribeRequest",
    ]


@pytest.mark.parametrize(
    ("state", "reason", "status", "code", "told", "error"),
    [
        ("failed", "provider_exhausted", 502, "provider_exhausted", "failed", "server_error"),
        ("failed", "sandbox_unavailable", 503, "sandbox_unavailable", "failed", "server_error"),
        ("failed", "poisoned", 500, "poisoned", "failed", "server_error"),
        ("failed", "context_overflow", 400, "context_length_exceeded", "failed", "invalid_prompt"),
        ("interrupted", "interrupted_by_user", 409, "interrupted_by_user", "cancelled", None),
        ("cancelled", "interrupted_by_user", 409, "interrupted_by_user", "cancelled", None),
        ("expired", "", 504, "expired", "failed", "server_error"),
    ],
)
async def test_a_turn_without_an_answer_is_an_error_to_who_waits_and_a_fact_to_who_reads(
    client: httpx.AsyncClient,
    authority: WireAuthority,
    state: str,
    reason: str,
    status: int,
    code: str,
    told: str,
    error: str | None,
) -> None:
    authority.add_event("message.completed", message_id="m", content="half", finish_reason="stop")
    ended(authority, state, reason)
    waited = await client.post(PATH, json=ASK)
    refusal_of(waited, status, code)
    assert waited.headers["x-should-retry"] == "false"
    authority.state = ledger_pb2.TURN_STATE_FAILED
    read = strict_response((await client.get(f"{PATH}/{response_id(authority)}")).json())
    assert (read.status, read.output_text) == (told, "half")
    assert (read.error.code if read.error else None) == error
    events = events_of((await client.post(PATH, json=STREAM)).text)
    strict_stream(events)
    assert events[-1]["type"] == "response.failed"


@pytest.mark.parametrize(
    ("state", "reason", "finish", "detail"),
    [
        ("failed", "iteration_budget", "stop", "max_output_tokens"),
        ("failed", "cost_budget", "stop", "max_output_tokens"),
        ("failed", "run_budget", "stop", "max_output_tokens"),
        ("completed", "final_answer", "length", "max_output_tokens"),
        ("completed", "final_answer", "content_filter", "content_filter"),
    ],
)
async def test_a_curtailed_answer_is_incomplete(
    client: httpx.AsyncClient,
    authority: WireAuthority,
    state: str,
    reason: str,
    finish: str,
    detail: str,
) -> None:
    authority.add_event("message.completed", message_id="m", content="so far", finish_reason=finish)
    ended(authority, state, reason)
    found = strict_response((await client.post(PATH, json=ASK)).json())
    assert (found.output_text, found.status) == ("so far", "incomplete")
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == detail


async def test_a_turn_that_does_not_stop_is_said_to_run(
    client: httpx.AsyncClient, authority: WireAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herma.gateway.routes.responses._PATIENCE", 0.2)
    path = f"{PATH}/{response_id(authority)}/cancel"
    authority.memo = ""
    found = strict_response((await client.post(path)).json())
    assert found.status == "in_progress"
    await until(lambda: authority.subscribers == 0)
    answer(authority, "after all")
    assert strict_response((await client.post(path)).json()).output_text == "after all"


async def test_what_was_asked_is_listed_by_pages(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    answer(authority, "x")
    await client.post(PATH, json=ASK)
    for number in range(3):
        role = "assistant" if number % 2 else "user"
        authority.input.earlier.add(id=f"{number}", role=role, content=f"said {number}")
    path = f"{PATH}/{response_id(authority)}/input_items"
    whole = (await client.get(path)).json()
    ids = [item["id"] for item in whole["data"]]
    assert ids == [f"msg_{authority.turn_id}", "msg_2", "msg_1", "msg_0"]
    strict_items({**whole, "data": [item for item in whole["data"] if item["role"] == "user"]})
    assert (whole["first_id"], whole["last_id"], whole["has_more"]) == (ids[0], ids[-1], False)
    seen: list[str] = []
    page: dict[str, Any] = {"has_more": True}
    while page["has_more"]:
        more = {"after": seen[-1]} if seen else {}
        page = (await client.get(path, params={"limit": 3, "order": "asc", **more})).json()
        seen += [item["id"] for item in page["data"]]
    assert seen == ids[::-1]
    assert (await client.get(path, params={"after": ids[-1]})).json()["data"] == []
    for wrong in (
        {"limit": 0},
        {"limit": 101},
        {"order": "up"},
        {"after": "msg_x"},
        {"after": "x" * 101},
    ):
        refusal_of(await client.get(path, params=wrong), 400, "invalid_argument")


async def test_a_session_that_was_named_is_not_deleted(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    answer(authority, "x")
    path = f"{PATH}/{response_id(authority)}"
    await client.post(PATH, json={**ASK, "conversation": authority.session_id})
    refusal_of(await client.delete(path), 409, "session_goes_on")
    authority.memo = ""
    refusal_of(await client.delete(path), 409, "session_goes_on")
    assert not any(type(r).__name__ == "DeleteSessionRequest" for r in authority.requests)
    await client.post(PATH, json=ASK)
    gone = await client.delete(path)
    assert gone.json() == {"id": response_id(authority), "object": "response", "deleted": True}
    asked = authority.requests[-1]
    assert (asked.session_id, asked.only_turn_id) == (authority.session_id, authority.turn_id)


@pytest.mark.parametrize(
    ("failure", "status", "code", "param"),
    [
        (NotFound("no profile 'x'", reason="PROFILE_NOT_FOUND"), 404, "model_not_found", "model"),
        (IdempotencyConflict("used"), 409, "idempotency_conflict", None),
        (TurnUnfinished("no"), 409, "turn_unfinished", "previous_response_id"),
        (SessionGoesOn("no"), 409, "session_goes_on", None),
        (ResourceExhausted("full", retry_after=2.5), 429, "rate_limit_exceeded", None),
        (PermissionDenied("no"), 403, "permission_denied", None),
        (DeadlineExceeded("late"), 503, "deadline_exceeded", None),
        (Internal("broken"), 500, "internal", None),
        (RuntimeError("a secret of the authority"), 500, "internal", None),
        (InvalidArgument("no", fields={"content": "x"}), 400, "invalid_argument", "input"),
        (InvalidArgument("no", fields={"history[3]": "x"}), 400, "invalid_argument", "input"),
        (InvalidArgument("no", fields={"memo": "x"}), 400, "invalid_argument", "metadata"),
        (
            InvalidArgument("no", fields={"continuation": "x"}),
            400,
            "invalid_argument",
            "previous_response_id",
        ),
    ],
)
@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_refusals_have_openais_shape(
    client: httpx.AsyncClient,
    authority: WireAuthority,
    failure: Exception,
    status: int,
    code: str,
    param: str | None,
    body: dict[str, Any],
) -> None:
    authority.failure = failure
    found = await client.post(PATH, json=body)
    assert refusal_of(found, status, code)["param"] == param
    assert "a secret" not in found.text


async def test_every_failure_on_these_paths_has_openais_shape(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, authority: WireAuthority
) -> None:
    json_ = {"Content-Type": "application/json"}
    mine = f"{PATH}/{response_id(authority)}"
    for method, path in (
        ("POST", PATH),
        ("GET", mine),
        ("DELETE", mine),
        ("POST", f"{mine}/cancel"),
        ("GET", f"{mine}/input_items"),
    ):
        body = ASK if path == PATH else None
        refusal_of(await anonymous.request(method, path, json=body), 401, "invalid_api_key")
        scopeless = {"Authorization": "Bearer root"}
        refusal_of(await client.request(method, path, json=body, headers=scopeless), 403, "scope_missing")
    refusal_of(await client.put(mine), 405, "method_not_allowed")
    refusal_of(await client.get(f"{mine}/nothing"), 404, "not_found")
    refusal_of(await client.post(PATH, content=b"{", headers=json_), 400, "invalid_json")
    deep = b'{"model": "default", "input": ' + b"[" * 33 + b"]" * 33 + b"}"
    refusal_of(await client.post(PATH, content=deep, headers=json_), 400, "json_too_deep")
    large = {**ASK, "input": "x" * 10_000_000}
    refusal_of(await client.post(PATH, json=large), 413, "body_too_large")
    many = {**ASK, "input": [{"role": "user", "content": ""}] * 5_001}
    refusal_of(await client.post(PATH, json=many), 400, "invalid_argument")
    twice = b'{"model": "default", "input": "Hi", "input": ""}'
    refusal_of(await client.post(PATH, content=twice, headers=json_), 400, "invalid_argument")
    for wrong in ("-1", "x", "9" * 30):
        found = await client.get(f"{mine}?stream=true&starting_after={wrong}")
        assert refusal_of(found, 400, "invalid_argument")["param"] == "starting_after"
    key = await client.post(PATH, json=ASK, headers={"Idempotency-Key": "x" * 256})
    assert str(refusal_of(key, 400, "invalid_argument")["param"]).lower() == "idempotency-key"
    session = await client.post(PATH, json=ASK, headers={"X-Herma-Session": "nonsense"})
    assert refusal_of(session, 404, "session_not_found")["param"] == "X-Herma-Session"
    both = {**ASK, "conversation": str(uuid4())}
    named = {"X-Herma-Session": authority.session_id}
    found = await client.post(PATH, json=both, headers=named)
    assert refusal_of(found, 400, "invalid_argument")["param"] == "conversation"
    assert not any(type(r).__name__ == "SubmitRequest" for r in authority.requests)


async def test_a_session_of_another_profile_is_refused(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    body = {**ASK, "conversation": authority.session_id}
    refusal_of(await client.post(PATH, json={**body, "model": "nobody"}), 404, "model_not_found")
    authority.profile = "other"
    other = await client.post(PATH, json=body)
    assert refusal_of(other, 400, "invalid_argument")["param"] == "model"
