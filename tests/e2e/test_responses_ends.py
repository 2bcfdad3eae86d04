"""A response does not depend on who listens: background, cancellation, lost connections, resumption."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.conftest import platform_for
from tests.support.chat_wire import Cut
from tests.support.model_server import Reply, ScriptedModelServer, Step, hang, text
from tests.support.openai_clients import asking, turns_of
from tests.support.platform import Client, TestPlatform
from tests.support.response_shapes import strict_response, strict_stream
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
    model.on("PAUSES", Step(_pause))
    model.on("BREAKS", Step(_break_off, times=1), text("the whole answer"))
    model.on("HANG", hang(60))
    # No runner dies here, so a lease that lapses on a busy machine would only disturb.
    yield from platform_for(model, "local", "--gateways", "2", HERMA_LEASE_TTL_SECONDS="60")


@pytest.fixture(autouse=True)
def paused() -> Iterator[None]:
    GO_ON.clear()
    yield
    GO_ON.set()


def gateways(platform: TestPlatform) -> list[tuple[str, str]]:
    """Names and addresses."""
    return [
        (s["name"], f"http://{s['address']}")
        for s in platform.up_file["services"]
        if s["name"].startswith("gateway")
    ]


async def until_text(stream: Any) -> list[Any]:
    """The events up to the first with text."""
    seen = []
    while not seen or seen[-1].type != "response.output_text.delta":
        seen.append(await anext(stream))
    return seen


def dicts(events: list[Any]) -> list[Any]:
    return [event.to_dict() for event in events]


async def test_in_the_background_it_is_polled(platform: TestPlatform, model: ScriptedModelServer) -> None:
    word = f"PAUSES {uuid.uuid4().hex}"
    async with asking(platform) as client:
        made = await client.responses.create(model="default", input=word, background=True)
        strict_response(made.to_dict())
        assert made.status in ("queued", "in_progress")
        assert (made.background, made.output, made.usage) == (True, [], None)
        await model.wait_for_request(word)
        polled = await client.responses.retrieve(made.id)
        strict_response(polled.to_dict())
        assert (polled.status, polled.background) == ("in_progress", True)
        GO_ON.set()

        async def finished() -> Any:
            found = await client.responses.retrieve(made.id)
            return found if found.status not in ("queued", "in_progress") else None

        done = await eventually(finished, "the response is completed")
        assert strict_response(done.to_dict()).output_text == "one two three four five six"
        # Cancelled too late: as it is.
        assert (await client.responses.cancel(made.id)).to_dict() == done.to_dict()


async def test_a_response_in_the_background_is_cancelled(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = f"HANG {uuid.uuid4().hex}"
    async with asking(platform) as client, platform.client() as herma:
        made = await client.responses.create(model="default", input=word, background=True)
        request = await model.wait_for_request(word)
        cancelled = strict_response((await client.responses.cancel(made.id)).to_dict())
        assert (cancelled.status, cancelled.output) == ("cancelled", [])
        # The model's call is over, too.
        await eventually(lambda: request.aborted, "the call was given up")
        turn = await herma.turn(made.id.removeprefix("resp_"))
        assert (turn["state"], turn["exit_reason"]) == ("interrupted", "interrupted_by_user")
        for again in (client.responses.cancel(made.id), client.responses.retrieve(made.id)):
            assert (await again).to_dict() == cancelled.to_dict()


async def test_a_queued_response_is_cancelled_before_it_runs(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    async with asking(platform) as client:
        one = await client.responses.create(model="default", input=f"PAUSES {word}", background=True)
        # After a response that runs: behind it in its session.
        two = await client.responses.create(
            model="default", input=f"PLAIN {word}", background=True, previous_response_id=one.id
        )
        assert (await client.responses.retrieve(two.id)).status == "queued"
        items = await client.responses.input_items.list(two.id)
        assert [item.content[0].text for item in items.data] == [f"PLAIN {word}"]  # type: ignore[union-attr]
        # Its past is not complete, so there is nothing yet to branch from.
        with pytest.raises(openai.ConflictError) as early:
            await client.responses.create(model="default", input="PLAIN", previous_response_id=one.id)
        assert (early.value.code, early.value.param) == ("turn_unfinished", "previous_response_id")
        assert (await client.responses.cancel(two.id)).status == "cancelled"
        GO_ON.set()
        three = await client.responses.create(
            model="default", input=f"PLAIN {word}", previous_response_id=two.id
        )
        assert three.output_text == "plain answer"
        assert (await client.responses.retrieve(one.id)).status == "completed"
    assert [m["content"] for m in model.matching(f"PLAIN {word}")[-1].messages[1:]] == [
        f"PAUSES {word}",
        "one two three four five six",
        f"PLAIN {word}",
    ]


@pytest.mark.parametrize("background", [True, False])
async def test_a_cut_stream_is_resumed_where_it_was_cut(
    platform: TestPlatform, model: ScriptedModelServer, background: bool
) -> None:
    word = f"PAUSES {uuid.uuid4().hex}"
    with FaultProxy(platform.up_file["http"]) as proxy:
        async with asking(platform, f"http://{proxy.address}") as client:
            stream = await client.responses.create(
                model="default", input=word, stream=True, background=background
            )
            seen = await until_text(stream)
            assert proxy.cut_all() == 1
            with pytest.raises(openai.APIConnectionError):
                seen += [event async for event in stream]
    response_id = seen[0].response.id
    last = seen[-1].sequence_number
    assert seen[0].response.status == ("queued" if background else "in_progress")
    asyncio.get_running_loop().call_later(0.5, GO_ON.set)
    # Twice, by either gateway: while the turn may still run, and once it has ended.
    for _, url in gateways(platform):
        async with asking(platform, url) as client:
            rest = [
                event
                async for event in await client.responses.retrieve(
                    response_id, stream=True, starting_after=last
                )
            ]
            whole = [event async for event in await client.responses.retrieve(response_id, stream=True)]
        response = strict_stream(dicts([*seen, *rest]))
        assert response is not None
        assert response.output_text == "one two three four five six"
        assert dicts(whole) == dicts([*seen, *rest])
    assert len(model.matching(word)) == 1
    assert turns_of(platform, word) == [response_id.removeprefix("resp_")]


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_same_request_under_the_same_key_gets_the_same_response(
    platform: TestPlatform, model: ScriptedModelServer, streaming: bool
) -> None:
    key, word = uuid.uuid4().hex, f"PAUSES {uuid.uuid4().hex}"
    ask: dict[str, Any] = {
        "model": "default",
        "input": word,
        "metadata": {"a": "b"},
        "extra_headers": {"Idempotency-Key": key},
    }

    async def answer(number: int) -> str:
        async with asking(platform, gateways(platform)[number % 2][1]) as client:
            if not streaming:
                return (await client.responses.create(**ask)).to_json()
            events = dicts([e async for e in await client.responses.create(**ask, stream=True)])
            strict_stream(events)
            return json.dumps(events[-1]["response"])

    asyncio.get_running_loop().call_later(0.5, GO_ON.set)
    answers = await asyncio.gather(*(answer(number) for number in range(8)))
    assert len({json.dumps(json.loads(found), sort_keys=True) for found in answers}) == 1
    assert len(turns_of(platform, word)) == 1
    async with asking(platform, max_retries=2) as client:
        for change in ({"input": "PLAIN"}, {"metadata": {}}, {"instructions": "x"}, {"user": "u"}):
            with pytest.raises(openai.ConflictError) as conflict:
                await client.responses.create(**{**ask, **change})
            assert conflict.value.code == "idempotency_conflict"
        # The key of another path is another key.
        chat = await client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "PLAIN"}],
            extra_headers=ask["extra_headers"],
        )
        assert chat.choices[0].message.content == "plain answer"


async def test_a_continuation_under_a_key_is_one_wherever_it_went_on(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    async with asking(platform) as client:
        one = await client.responses.create(model="default", input=f"PLAIN {word}")
        found = []
        for key in (f"a{word}", f"b{word}", f"a{word}", f"b{word}"):
            found.append(
                await client.responses.create(
                    model="default",
                    input=f"PLAIN {word} more",
                    previous_response_id=one.id,
                    extra_headers={"Idempotency-Key": key},
                )
            )
    assert [response.id for response in found[:2]] == [response.id for response in found[2:]]
    assert len({response.id for response in found}) == 2
    assert [len(request.messages) for request in model.matching(f"PLAIN {word} more")] == [4, 4]


async def test_the_texts_of_two_attempts_are_never_joined(platform: TestPlatform) -> None:
    BREAK.clear()
    ask: dict[str, Any] = {"model": "default", "input": f"BREAKS {uuid.uuid4().hex}"}
    async with asking(platform) as client:
        stream = await client.responses.create(**ask, stream=True)
        seen = await until_text(stream)
        response_id = seen[0].response.id
        whole = asyncio.create_task(_whole(client, response_id))
        BREAK.set()
        seen += [event async for event in stream]
        assert strict_stream(dicts(seen)) is None
        assert seen[-1].code == "answer_retracted"
        # Who did not see the first attempt is not told of it, and who did is told again.
        assert (await whole).output_text == "the whole answer"
        again = dicts([e async for e in await client.responses.retrieve(response_id, stream=True)])
        response = strict_stream(again)
        assert response is not None
        assert response.output_text == "the whole answer"
        rest = [
            event
            async for event in await client.responses.retrieve(
                response_id, stream=True, starting_after=seen[-2].sequence_number
            )
        ]
        assert [(e.type, e.sequence_number) for e in rest] == [("error", seen[-1].sequence_number)]


async def _whole(client: openai.AsyncOpenAI, response_id: str) -> Any:
    async def finished() -> Any:
        found = await client.responses.retrieve(response_id)
        return found if found.status == "completed" else None

    return await eventually(finished, "the response is completed")


@pytest.mark.parametrize("streaming", [False, True])
async def test_who_waits_for_a_response_that_is_cancelled_is_told(
    platform: TestPlatform, model: ScriptedModelServer, streaming: bool
) -> None:
    word = f"HANG {uuid.uuid4().hex}"
    async with asking(platform) as client:

        async def ask() -> list[Any]:
            if not streaming:
                await client.responses.create(model="default", input=word)
            stream = await client.responses.create(model="default", input=word, stream=True)
            return dicts([event async for event in stream])

        asked = asyncio.create_task(ask())
        await model.wait_for_request(word)
        (turn_id,) = turns_of(platform, word)
        await client.responses.cancel(f"resp_{turn_id}")
        if streaming:
            events = await asked
            response = strict_stream(events)
            assert response is not None
            assert (events[-1]["type"], response.status) == ("response.failed", "cancelled")
        else:
            with pytest.raises(openai.ConflictError) as stopped:
                await asked
            assert (stopped.value.type, stopped.value.code) == ("turn_error", "interrupted_by_user")


async def test_a_response_that_runs_is_deleted(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = f"HANG {uuid.uuid4().hex}"
    async with asking(platform) as client:
        made = await client.responses.create(model="default", input=word, background=True)
        request = await model.wait_for_request(word)
        watched = asyncio.create_task(_events(client, made.id))
        await asyncio.sleep(0)
        await client.responses.delete(made.id)
        await eventually(lambda: request.ended is not None, "the call was given up")
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(made.id)
        try:
            events = await watched
        except openai.NotFoundError:
            return
    assert events[-1]["type"] in ("error", "response.failed")


async def _events(client: openai.AsyncOpenAI, response_id: str) -> list[Any]:
    return dicts([event async for event in await client.responses.retrieve(response_id, stream=True)])


async def test_a_killed_authority_is_not_noticed(platform: TestPlatform) -> None:
    word = f"PAUSES {uuid.uuid4().hex}"
    async with asking(platform) as client:
        stream = await client.responses.create(model="default", input=word, stream=True)
        seen = await until_text(stream)
        platform.kill("session-authority")
        GO_ON.set()
        seen += [event async for event in stream]
        response = strict_stream(dicts(seen))
        assert response is not None
        assert response.output_text == "one two three four five six"

        async def back() -> bool:
            async with Client(platform.up_file["http"], "") as http:
                return (await http.http.get("/readyz")).status_code == 200

        await eventually(back, "the authority is back")
        kept = await client.responses.retrieve(response.id)
        assert kept.to_dict() == seen[-1].response.to_dict()


async def test_a_killed_gateway_leaves_the_stream_to_the_other(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = f"PAUSES {uuid.uuid4().hex}"
    (name, url), (_, other) = gateways(platform)
    async with asking(platform, url) as client:
        stream = await client.responses.create(model="default", input=word, stream=True)
        seen = await until_text(stream)
        platform.kill(name)
        with pytest.raises(openai.APIConnectionError):
            seen += [event async for event in stream]
    GO_ON.set()
    async with asking(platform, other) as client:
        rest = await client.responses.retrieve(
            seen[0].response.id, stream=True, starting_after=seen[-1].sequence_number
        )
        seen += [event async for event in rest]
    response = strict_stream(dicts(seen))
    assert response is not None
    assert response.output_text == "one two three four five six"
    assert len(model.matching(word)) == 1

    async def back() -> bool:
        try:
            async with Client(url, "") as http:
                return (await http.http.get("/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    await eventually(back, "the gateway is back for the other tests")


async def test_polls_of_others_do_not_wait_for_a_long_answer(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    """A cursor far beyond the newest event waits for the end like any other, and ends with an error."""
    word = f"PAUSES {uuid.uuid4().hex}"
    async with asking(platform) as client:
        made = await client.responses.create(model="default", input=word, background=True)
        lying = asyncio.create_task(
            _rest(client, made.id, 2**53),
        )
        await model.wait_for_request(word)
        began = time.monotonic()
        assert (await client.responses.retrieve(made.id)).status == "in_progress"
        assert time.monotonic() - began < 5
        GO_ON.set()
        (event,) = await lying
        assert (event["type"], event["code"]) == ("error", "invalid_argument")


async def _rest(client: openai.AsyncOpenAI, response_id: str, after: int) -> list[Any]:
    stream = await client.responses.retrieve(response_id, stream=True, starting_after=after)
    return dicts([event async for event in stream])
