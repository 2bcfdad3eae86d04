"""OpenAI's chat completions, as the gateway serves them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.component.gateway.conftest import Gateway, until
from tests.component.gateway.wire_authority import WireAuthority

from herma.common.errors import (
    DeadlineExceeded,
    HermaError,
    IdempotencyConflict,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)

PATH = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": "Hi"}]}
STREAM = {**ASK, "stream": True}
USAGE = {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 2, "reasoning_tokens": 1}


@pytest.fixture
async def authority(authority: WireAuthority) -> WireAuthority:
    authority.cursor = 0
    return authority


def completed(authority: WireAuthority, content: str) -> None:
    """The whole message."""
    authority.add_event(
        "message.completed", message_id="m", attempt=1, content=content, finish_reason="stop"
    )


def ended(authority: WireAuthority, state: str = "completed", reason: str = "final_answer") -> None:
    """The turn's end."""
    authority.add_event("turn.ended", state=state, exit_reason=reason, usage=USAGE)


def chunks_of(body: str) -> list[Any]:
    """The data of a stream's events."""
    blocks = [block for block in body.split("\n\n") if block and not block.startswith(":")]
    assert all(block.startswith("data: ") for block in blocks), body
    return [
        "[DONE]" if block == "data: [DONE]" else json.loads(block.removeprefix("data: "))
        for block in blocks
    ]


def content_of(chunks: list[Any]) -> str:
    return "".join(
        chunk["choices"][0]["delta"].get("content", "")
        for chunk in chunks
        if isinstance(chunk, dict) and chunk.get("choices")
    )


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
    completed(authority, "Hello")
    ended(authority)
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    body = {"model": "default", "messages": messages, "user": "ann", "temperature": 1, "nonsense": {}}
    answer = await client.post(PATH, json=body, headers={"Idempotency-Key": "once"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-herma-session"] == authority.session_id
    assert answer.headers["x-herma-turn"] == authority.turn_id
    assert answer.json() == {
        "id": f"chatcmpl-{authority.turn_id}",
        "object": "chat.completion",
        "created": int(authority.turn_id.replace("-", "")[:12], 16) // 1000,
        "model": "default",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    }
    submitted, subscribed = authority.requests
    assert (submitted.session_id, submitted.content, submitted.mode) == ("", "three", "queue")
    new = submitted.new_session
    assert (new.profile, new.entrance, new.key) == ("default", "openai", "default:ann")
    assert new.instructions == "Be kind."
    assert [(entry.role, entry.content) for entry in new.history] == [
        ("user", "one"),
        ("assistant", "two"),
    ]
    assert (subscribed.session_id, subscribed.turn_id) == (authority.session_id, authority.turn_id)


async def test_keys_of_requests_are_told_apart(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    ended(authority)
    for key, body in (
        ("a", ASK),
        ("a", STREAM),
        ("a", {**ASK, "user": "u"}),
        ("b", ASK),
        ("", ASK),
        ("", ASK),
    ):
        headers = {"Idempotency-Key": key} if key else {}
        assert (await client.post(PATH, json=body, headers=headers)).status_code == 200
    sent = [(r.idempotency_key, r.fingerprint) for r in authority.requests[::2]]
    first, streamed, other, another, *bare = sent
    assert streamed == first
    assert other[0] == first[0]
    assert other[1] != first[1]
    assert another[0] != first[0]
    assert len({key for key, _ in bare} | {first[0]}) == 3
    assert all(0 < len(key) <= 255 for key, _ in sent)


async def test_a_model_and_a_user_name_one_session_and_no_others(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    ended(authority)
    names = [("a", "b:c"), ("a:b", "c"), ("a%3Ab", "c"), ("a", "b"), ("b", "a")]
    for model, user in names:
        await client.post(PATH, json={**ASK, "model": model, "user": user})
    keys = {request.new_session.key for request in authority.requests[::2]}
    assert len(keys) == len(names)


async def test_gaps_and_repeats_of_streamed_text_do_not_show(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    authority.add_delta("Grü")
    authority.add_delta("Grüße", 0)
    authority.add_delta("!lost before", 9)
    completed(authority, "Grüße, 🜂\u2028!")
    ended(authority)
    answer = await client.post(PATH, json=STREAM)
    assert answer.headers["content-type"] == "text/event-stream"
    assert "\u2028" not in answer.text
    *chunks, done = chunks_of(answer.text)
    assert done == "[DONE]"
    pieces = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert pieces == [
        {"role": "assistant", "content": ""},
        {"content": "Grü"},
        {"content": "ße"},
        {"content": ", 🜂\u2028!"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["stop"]
    assert all("usage" not in chunk for chunk in chunks)


async def test_a_client_does_not_notice_that_the_authority_restarts(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    authority.add_delta("one two ")
    reading = asyncio.create_task(client.post(PATH, json=STREAM))
    await until(lambda: authority.subscribers == 1)
    await authority.stop()
    await authority.start()
    authority.add_delta("three", 8)
    completed(authority, "one two three")
    ended(authority)
    chunks = chunks_of((await reading).text)
    assert content_of(chunks) == "one two three"
    assert chunks[-1] == "[DONE]"


@pytest.mark.parametrize("shown", [True, False])
async def test_only_text_that_was_sent_cannot_be_taken_back(
    client: httpx.AsyncClient, authority: WireAuthority, shown: bool
) -> None:
    if shown:
        authority.add_delta("false start")
    authority.add_event("message.discarded", message_id="m", reason="provider_error")
    authority.add_event(
        "message.completed", message_id="m2", content="right", finish_reason="stop", attempt=1
    )
    ended(authority)
    chunks = chunks_of((await client.post(PATH, json=STREAM)).text)
    if shown:
        assert content_of(chunks) == "false start"
        assert chunks[-1]["error"]["code"] == "answer_retracted"
    else:
        assert content_of(chunks) == "right"
        assert chunks[-1] == "[DONE]"
    whole = (await client.post(PATH, json=ASK)).json()
    assert whole["choices"][0]["message"]["content"] == "right"


async def test_other_turns_of_the_session_are_not_heard(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    mine = authority.turn_id
    authority.turn_id = authority.session_id
    authority.add_delta("theirs")
    completed(authority, "theirs")
    authority.turn_id = mine
    completed(authority, "mine")
    ended(authority)
    assert content_of(chunks_of((await client.post(PATH, json=STREAM)).text)) == "mine"


async def test_a_long_silence_is_filled_with_comments(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    async with asyncio.timeout(5), client.stream("POST", PATH, json=STREAM) as answer:
        beats = 0
        async for line in answer.aiter_lines():
            beats += line.startswith(": still")
            if beats == 3:
                ended(authority)
    assert beats >= 3


@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_an_answer_ends_when_its_key_is_revoked(
    client: httpx.AsyncClient, authority: WireAuthority, body: dict[str, Any]
) -> None:
    async with asyncio.timeout(5):
        asking = asyncio.create_task(client.post(PATH, json=body))
        await until(lambda: authority.subscribers == 1)
        del authority.keys["good"]
        answer = await asking
    if body is ASK:
        refusal_of(answer, 401, "invalid_api_key")
    else:
        assert chunks_of(answer.text)[-1]["error"]["code"] == "invalid_api_key"
    await until(lambda: authority.subscribers == 0)


@pytest.mark.parametrize("key", ["once", ""])
@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_a_gateway_that_stops_says_where_the_answer_is(
    client: httpx.AsyncClient,
    authority: WireAuthority,
    gateway: Gateway,
    body: dict[str, Any],
    key: str,
) -> None:
    headers = {"Idempotency-Key": key} if key else {}
    async with asyncio.timeout(5):
        asking = asyncio.create_task(client.post(PATH, json=body, headers=headers))
        await until(lambda: authority.subscribers == 1)
        gateway.stopping.set()
        answer = await asking
    if body is ASK:
        error = refusal_of(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["x-herma-turn"] == authority.turn_id
        # Without a key the client's library would start another turn by trying again.
        assert answer.headers.get("x-should-retry") == (None if key else "false")
    else:
        error = chunks_of(answer.text)[-1]["error"]
    assert "Idempotency-Key" in error["message"]


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
    ("state", "reason", "status", "kind", "code"),
    [
        ("failed", "provider_exhausted", 502, "server_error", "provider_exhausted"),
        ("failed", "sandbox_unavailable", 503, "server_error", "sandbox_unavailable"),
        ("failed", "poisoned", 500, "server_error", "poisoned"),
        ("failed", "context_overflow", 400, "invalid_request_error", "context_length_exceeded"),
        ("interrupted", "interrupted_by_user", 409, "turn_error", "interrupted_by_user"),
        ("cancelled", "interrupted_by_user", 409, "turn_error", "interrupted_by_user"),
        ("expired", "", 504, "turn_error", "expired"),
    ],
)
async def test_a_turn_without_an_answer_is_an_error(
    client: httpx.AsyncClient,
    authority: WireAuthority,
    state: str,
    reason: str,
    status: int,
    kind: str,
    code: str,
) -> None:
    completed(authority, "half")
    ended(authority, state, reason)
    answer = await client.post(PATH, json=ASK)
    assert refusal_of(answer, status, code)["type"] == kind
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-herma-turn"] == authority.turn_id
    chunks = chunks_of((await client.post(PATH, json=STREAM)).text)
    assert chunks[-1]["error"] == answer.json()["error"]


@pytest.mark.parametrize("reason", ["iteration_budget", "cost_budget", "run_budget"])
async def test_a_spent_budget_curtails_the_answer(
    client: httpx.AsyncClient, authority: WireAuthority, reason: str
) -> None:
    completed(authority, "so far")
    ended(authority, "failed", reason)
    (choice,) = (await client.post(PATH, json=ASK)).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("so far", "length")


@pytest.mark.parametrize(
    ("failure", "status", "kind", "code", "headers"),
    [
        (
            NotFound("no profile 'x'", reason="PROFILE_NOT_FOUND"),
            404,
            "invalid_request_error",
            "model_not_found",
            {},
        ),
        (
            IdempotencyConflict("used"),
            409,
            "invalid_request_error",
            "idempotency_conflict",
            {"x-should-retry": "false"},
        ),
        (
            ResourceExhausted("full", retry_after=2.5),
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
            {"retry-after": "3"},
        ),
        (PermissionDenied("no"), 403, "invalid_request_error", "permission_denied", {}),
        (DeadlineExceeded("late"), 503, "server_error", "deadline_exceeded", {"retry-after": "1"}),
        (Internal("broken"), 500, "server_error", "internal", {}),
        (RuntimeError("a secret of the authority"), 500, "server_error", "internal", {}),
    ],
)
@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_refusals_have_openais_shape(
    client: httpx.AsyncClient,
    authority: WireAuthority,
    failure: Exception,
    status: int,
    kind: str,
    code: str,
    headers: dict[str, str],
    body: dict[str, Any],
) -> None:
    authority.failure = failure
    answer = await client.post(PATH, json=body)
    error = refusal_of(answer, status, code)
    assert error["type"] == kind
    assert error["param"] == ("model" if status == 404 else None)
    assert "a secret" not in answer.text
    assert isinstance(failure, HermaError) or error["message"]
    for name, value in headers.items():
        assert answer.headers[name] == value


@pytest.mark.parametrize(
    ("field", "param"),
    [("content", "messages"), ("history[3]", "messages"), ("instructions", "messages"), ("key", "user")],
)
async def test_the_authoritys_fields_are_named_as_the_client_knows_them(
    client: httpx.AsyncClient, authority: WireAuthority, field: str, param: str
) -> None:
    authority.failure = InvalidArgument("no", fields={field: "is too large"})
    answer = await client.post(PATH, json=ASK)
    error = refusal_of(answer, 400, "invalid_argument")
    assert error["param"] == param
    assert "is too large" in error["message"]


async def test_an_authority_that_is_away_is_said_so(
    client: httpx.AsyncClient, authority: WireAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("authority", "identities", "profiles"):
        monkeypatch.setattr(f"herma.gateway.{module}._TIMEOUT", 1.0)
    await authority.stop()
    for method, path in (("POST", PATH), ("GET", "/v1/models")):
        answer = await client.request(method, path, json=ASK if method == "POST" else None)
        refusal_of(answer, 503, answer.json()["error"]["code"])
        assert answer.headers["retry-after"] == "1"


async def test_every_failure_on_openais_paths_has_openais_shape(
    client: httpx.AsyncClient, anonymous: httpx.AsyncClient, authority: WireAuthority
) -> None:
    json_ = {"Content-Type": "application/json"}
    missing = await anonymous.post(PATH, json=ASK)
    refusal_of(missing, 401, "invalid_api_key")
    assert missing.headers["www-authenticate"] == "Bearer"
    for path in ("/v1/models", "/v1/models/default"):
        refusal_of(await anonymous.get(path), 401, "invalid_api_key")
        scopeless = await client.get(path, headers={"Authorization": "Bearer root"})
        refusal_of(scopeless, 403, "scope_missing")
        refusal_of(await client.delete(path), 405, "method_not_allowed")
    for path in ("/v1/models/nobody", "/v1/models/%00", f"/v1/models/{'x' * 300}"):
        assert refusal_of(await client.get(path), 404, "model_not_found")["param"] == "model"
    refusal_of(await client.get("/v1/models/a/b"), 404, "not_found")
    refusal_of(await client.post("/v1/chat/nothing", json={}), 404, "not_found")
    refusal_of(await client.get(PATH), 405, "method_not_allowed")
    refusal_of(await client.post(PATH, content=b"{", headers=json_), 400, "invalid_json")
    deep = b"[" * 33 + b"]" * 33
    refusal_of(await client.post(PATH, content=deep, headers=json_), 400, "json_too_deep")
    large = {**ASK, "messages": [{"role": "user", "content": "x" * 10_000_000}]}
    refusal_of(await client.post(PATH, json=large), 413, "body_too_large")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    refusal_of(await client.post(PATH, content=endless(), headers=json_), 413, "body_too_large")
    key = await client.post(PATH, json=ASK, headers={"Idempotency-Key": "x" * 256})
    assert str(refusal_of(key, 400, "invalid_argument")["param"]).lower() == "idempotency-key"
    session = await client.post(PATH, json=ASK, headers={"X-Herma-Session": "nonsense"})
    assert refusal_of(session, 404, "session_not_found")["param"] == "X-Herma-Session"
    assert not any(type(r).__name__ == "SubmitRequest" for r in authority.requests)


async def test_a_session_of_another_profile_is_refused(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    named = {"X-Herma-Session": authority.session_id}
    unknown = await client.post(PATH, json={**ASK, "model": "nobody"}, headers=named)
    refusal_of(unknown, 404, "model_not_found")
    authority.profile = "other"
    other = await client.post(PATH, json=ASK, headers=named)
    assert refusal_of(other, 400, "invalid_argument")["param"] == "model"


async def test_models_are_profiles(client: httpx.AsyncClient) -> None:
    model = {"id": "one", "object": "model", "created": 1_767_000_000, "owned_by": "herma"}
    found = (await client.get("/v1/models")).json()
    assert found == {"object": "list", "data": [model, {**model, "id": "two"}]}
    assert (await client.get("/v1/models/one")).json() == model
