"""A turn does not depend on who listens: lost connections, repeated requests, ends that are none."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.conftest import platform_for
from tests.support.chat_wire import Cut
from tests.support.model_server import (
    Reply,
    ScriptedModelServer,
    Step,
    fault_status,
    first,
    hang,
    text,
)
from tests.support.openai_clients import asking, streamed, turns_of, user
from tests.support.platform import Client, TestPlatform
from tests.support.tcp_proxy import FaultProxy
from tests.support.waiting import eventually

BREAK = threading.Event()
GO_ON = threading.Event()


async def _break_off(reply: Reply) -> None:
    await reply.chunk({"content": "half of an "})
    while not BREAK.is_set():
        await asyncio.sleep(0.02)
    raise Cut


async def _pause(reply: Reply) -> None:
    await reply.chunk({"content": "one two "})
    while not GO_ON.is_set():
        await asyncio.sleep(0.02)
    await reply.chunk({"content": "three four five six"})
    await reply.end("stop", 6)


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    model.on("PLAIN", text("plain answer"))
    model.on("SLOWLY", text("one two three four five six", per_chunk=0.3))
    model.on("PAUSES", Step(_pause))
    model.on("BREAKS", Step(_break_off, times=1), text("the whole answer"))
    model.on("FAULT", first([fault_status(500)], text("after all")))
    model.on("DENIED", fault_status(400))
    model.on("HANG", hang(60))
    # No runner dies here, so a lease that lapses on a busy machine would only disturb.
    yield from platform_for(model, "local", "--gateways", "2", HERMA_LEASE_TTL_SECONDS="60")


def gateways(platform: TestPlatform) -> list[tuple[str, str]]:
    """Names and addresses."""
    return [
        (s["name"], f"http://{s['address']}")
        for s in platform.up_file["services"]
        if s["name"].startswith("gateway")
    ]


async def _cut_in_mid_stream(platform: TestPlatform, key: str, word: str) -> str:
    """Starts a streamed answer, reads a little of it, and loses the connection; the turn's id."""
    GO_ON.clear()
    with FaultProxy(platform.up_file["http"]) as proxy:
        async with asking(platform, f"http://{proxy.address}") as client:
            stream = await client.chat.completions.create(
                model="default",
                messages=user(word),
                stream=True,
                extra_headers={"Idempotency-Key": key},
            )
            seen = ""
            while not seen:
                seen = (await anext(stream)).choices[0].delta.content or ""
            assert proxy.cut_all() == 1
            with pytest.raises(openai.APIConnectionError):
                await streamed(stream)
            return str(stream.response.headers["x-herma-turn"])


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_cut_connection_leaves_the_turn_and_the_same_key_gets_its_answer(
    platform: TestPlatform, model: ScriptedModelServer, streaming: bool
) -> None:
    key, word = uuid.uuid4().hex, f"PAUSES {uuid.uuid4().hex}"
    turn_id = await _cut_in_mid_stream(platform, key, word)
    asyncio.get_running_loop().call_later(0.5, GO_ON.set)
    ask: dict[str, Any] = {
        "model": "default",
        "messages": user(word),
        "extra_headers": {"Idempotency-Key": key},
    }
    # Twice, on either gateway: while the turn may still run, and once it has ended.
    for _, url in gateways(platform):
        async with asking(platform, url) as client, platform.client() as herma:
            if streaming:
                stream = await client.chat.completions.create(**ask, stream=True)
                content, chunks = await streamed(stream)
                assert chunks[0].id == f"chatcmpl-{turn_id}"
            else:
                whole = await client.chat.completions.create(**ask)
                content = whole.choices[0].message.content or ""
                assert whole.id == f"chatcmpl-{turn_id}"
            assert content == "one two three four five six"
            turn = await herma.turn(turn_id)
            assert (turn["state"], turn["attempt"]) == ("completed", 1)
    assert len(model.matching(word)) == 1
    assert turns_of(platform, word) == [turn_id]


async def test_many_requests_at_once_under_one_key_are_one_turn(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    key, word = uuid.uuid4().hex, f"SLOWLY {uuid.uuid4().hex}"

    async def ask(number: int) -> tuple[str, str]:
        async with asking(platform, gateways(platform)[number % 2][1]) as client:
            ask: dict[str, Any] = {
                "model": "default",
                "messages": [*user("before"), {"role": "assistant", "content": "ok"}, *user(word)],
                "extra_headers": {"Idempotency-Key": key},
            }
            if number % 3:
                content, chunks = await streamed(await client.chat.completions.create(**ask, stream=True))
                return content, chunks[0].id
            whole = await client.chat.completions.create(**ask)
            return whole.choices[0].message.content or "", whole.id

    answers = await asyncio.gather(*(ask(number) for number in range(10)))
    assert {content for content, _ in answers} == {"one two three four five six"}
    assert len({id_ for _, id_ in answers}) == 1
    assert len(turns_of(platform, word)) == 1
    assert len(model.matching(word)) == 1


async def test_another_request_under_the_same_key_conflicts(platform: TestPlatform) -> None:
    key = uuid.uuid4().hex
    base = [{"role": "system", "content": "s"}, *user("h"), *user("PLAIN")]
    async with asking(platform, max_retries=2) as client, platform.client() as herma:
        session = await herma.session()

        async def ask(messages: list[Any], **options: Any) -> str:
            headers = {"Idempotency-Key": key, **options.pop("headers", {})}
            raw = await client.chat.completions.with_raw_response.create(
                model="default", messages=messages, extra_headers=headers, **options
            )
            return str(raw.headers["x-herma-turn"])

        turn = await ask(base)
        before = platform.sql("authority", "SELECT count(*) FROM authority.sessions")
        others: list[tuple[list[Any], dict[str, Any]]] = [
            ([*base[:-1], *user("PLAIN?")], {}),
            ([*base[:1], *user("PLAIN")], {}),
            ([{"role": "system", "content": "t"}, *base[1:]], {}),
            (base, {"user": "someone"}),
            (base, {"headers": {"X-Herma-Session": session}}),
        ]
        for messages, options in others:
            with pytest.raises(openai.ConflictError) as conflict:
                await ask(messages, **options)
            assert conflict.value.code == "idempotency_conflict"
            # Trying again is useless, and the client's library is told so.
            assert conflict.value.request.headers["x-stainless-retry-count"] == "0"
        assert await ask(base, temperature=0.9, max_tokens=5) == turn
        # Also what a named session does not import is part of the request.
        key = uuid.uuid4().hex
        named = {"X-Herma-Session": session}
        turn = await ask(base, headers=named)
        with pytest.raises(openai.ConflictError):
            await ask([*base[:1], *user("g"), *base[2:]], headers=named)
        assert await ask(base, headers=named) == turn
        assert platform.sql("authority", "SELECT count(*) FROM authority.sessions") == before


async def test_without_a_key_each_request_is_a_turn(platform: TestPlatform) -> None:
    word = f"PLAIN {uuid.uuid4().hex}"
    async with asking(platform) as client:
        for _ in range(2):
            await client.chat.completions.create(model="default", messages=user(word))
    assert len(turns_of(platform, word)) == 2


async def test_a_retry_of_the_clients_library_under_a_key_is_the_same_turn(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    key, word = uuid.uuid4().hex, f"SLOWLY {uuid.uuid4().hex}"
    with FaultProxy(platform.up_file["http"]) as proxy:
        async with asking(platform, f"http://{proxy.address}", max_retries=3) as client:
            asking_ = asyncio.create_task(
                client.chat.completions.with_raw_response.create(
                    model="default", messages=user(word), extra_headers={"Idempotency-Key": key}
                )
            )
            await model.wait_for_request(word)
            assert proxy.cut_all() == 1
            raw = await asking_
    assert raw.retries_taken == 1
    assert raw.parse().choices[0].message.content == "one two three four five six"
    assert turns_of(platform, word) == [raw.headers["x-herma-turn"]]


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_interrupted_turn_is_an_error(
    platform: TestPlatform, model: ScriptedModelServer, streaming: bool
) -> None:
    word = f"HANG {uuid.uuid4().hex}"
    async with asking(platform) as client, platform.client() as herma:

        async def ask() -> Any:
            answer = await client.chat.completions.create(
                model="default", messages=user(word), stream=streaming
            )
            return await streamed(answer) if streaming else answer

        asking_ = asyncio.create_task(ask())
        await model.wait_for_request(word)
        (turn_id,) = turns_of(platform, word)
        await herma.http.post(f"/v1/turns/{turn_id}/interrupt")
        with pytest.raises(openai.APIError) as ended:
            await asking_
    assert (ended.value.type, ended.value.code) == ("turn_error", "interrupted_by_user")
    assert isinstance(ended.value, openai.ConflictError) is not streaming


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_failed_turn_is_an_error_that_is_not_tried_again(
    platform: TestPlatform, streaming: bool
) -> None:
    word = f"DENIED {uuid.uuid4().hex}"
    async with asking(platform, max_retries=2) as client:

        async def ask() -> None:
            answer = await client.chat.completions.create(
                model="default", messages=user(word), stream=streaming
            )
            await streamed(answer)

        with pytest.raises(openai.APIError) as failed:
            await ask()
    assert (failed.value.type, failed.value.code) == ("server_error", "provider_exhausted")
    assert "refused the request" in failed.value.message
    if not streaming:
        assert isinstance(failed.value, openai.InternalServerError)
        assert failed.value.status_code == 502
    assert len(turns_of(platform, word)) == 1


async def test_an_attempt_that_said_nothing_is_not_noticed(platform: TestPlatform) -> None:
    async with asking(platform) as client:
        content, chunks = await streamed(
            await client.chat.completions.create(
                model="default", messages=user(f"FAULT {uuid.uuid4().hex}"), stream=True
            )
        )
    assert content == "after all"
    assert chunks[-1].choices[0].finish_reason == "stop"


async def test_the_texts_of_two_attempts_are_never_joined(platform: TestPlatform) -> None:
    BREAK.clear()
    ask: dict[str, Any] = {
        "model": "default",
        "messages": user(f"BREAKS {uuid.uuid4().hex}"),
        "extra_headers": {"Idempotency-Key": uuid.uuid4().hex},
    }
    seen: list[str] = []
    async with asking(platform) as client:

        async def watch() -> None:
            async for chunk in await client.chat.completions.create(**ask, stream=True):
                if content := chunk.choices[0].delta.content:
                    seen.append(content)
                    BREAK.set()

        whole = asyncio.create_task(client.chat.completions.create(**ask))
        with pytest.raises(openai.APIError) as retracted:
            await watch()
        assert seen == ["half of an "]
        assert retracted.value.code == "answer_retracted"
        # Who did not see the first attempt is not told of it.
        assert (await whole).choices[0].message.content == "the whole answer"
        content, _ = await streamed(await client.chat.completions.create(**ask, stream=True))
        assert content == "the whole answer"


async def test_a_killed_authority_is_not_noticed(platform: TestPlatform) -> None:
    async with asking(platform) as client:
        content = ""
        async for chunk in await client.chat.completions.create(
            model="default", messages=user(f"SLOWLY {uuid.uuid4().hex}"), stream=True
        ):
            if not content and chunk.choices[0].delta.content:
                platform.kill("session-authority")
            content += chunk.choices[0].delta.content or ""
        assert content == "one two three four five six"

        async def back() -> bool:
            async with Client(platform.up_file["http"], "") as http:
                return (await http.http.get("/readyz")).status_code == 200

        await eventually(back, "the authority is back")
        # Text is shown again while it is made, from the very next message on.
        GO_ON.clear()
        stream = await client.chat.completions.create(
            model="default", messages=user(f"PAUSES {uuid.uuid4().hex}"), stream=True
        )
        try:
            async with asyncio.timeout(20):
                while not (await anext(stream)).choices[0].delta.content:
                    pass
        finally:
            GO_ON.set()
        rest, _ = await streamed(stream)
        assert rest == "three four five six"


async def test_a_killed_gateway_leaves_the_turn_to_the_other(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    GO_ON.clear()
    word = f"PAUSES {uuid.uuid4().hex}"
    ask: dict[str, Any] = {
        "model": "default",
        "messages": user(word),
        "stream": True,
        "extra_headers": {"Idempotency-Key": uuid.uuid4().hex},
    }
    (name, url), (_, other) = gateways(platform)
    async with asking(platform, url) as client:
        stream = await client.chat.completions.create(**ask)
        while not (await anext(stream)).choices[0].delta.content:
            pass
        platform.kill(name)
        with pytest.raises(openai.APIConnectionError):
            await streamed(stream)
    GO_ON.set()
    async with asking(platform, other) as client:
        content, chunks = await streamed(await client.chat.completions.create(**ask))
    assert content == "one two three four five six"
    assert [chunks[0].id] == [f"chatcmpl-{turn_id}" for turn_id in turns_of(platform, word)]
    assert len(model.matching(word)) == 1

    async def back() -> bool:
        try:
            async with Client(url, "") as http:
                return (await http.http.get("/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    await eventually(back, "the gateway is back for the other tests")
