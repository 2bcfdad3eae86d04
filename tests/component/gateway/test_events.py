"""A session's stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.component.gateway.conftest import Gateway, until
from tests.component.gateway.wire_authority import WireAuthority

Frame = dict[str, Any]


async def frames(answer: httpx.Response) -> AsyncIterator[Frame]:
    """Reads server-sent events as their specification says."""
    frame: Frame = {}
    async for line in answer.aiter_lines():
        if not line:
            if "data" in frame:
                yield frame
            frame = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            frame[name] = json.loads(value) if name == "data" else value


def path_of(authority: WireAuthority) -> str:
    return f"/v1/sessions/{authority.session_id}/events"


async def test_events_carry_their_number_and_streamed_text_carries_none(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    authority.add_event("turn.queued", content="a\nb\u2028c\ud800", seq=99)
    authority.add_delta("zwei\nZeilen\r\n")
    authority.add_event("turn.ended", state="completed")
    async with client.stream("GET", f"{path_of(authority)}?turn={authority.turn_id}") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        body = (await answer.aread()).decode()
    assert "\u2028" not in body  # some clients' libraries would end a line there
    queued, delta, ended = [block for block in body.split("\n\n") if "data: " in block]
    assert queued.startswith("id: 1\nevent: turn.queued\ndata: ")
    assert json.loads(queued.partition("data: ")[2]) == {
        "seq": 1,
        "kind": "turn.queued",
        "turn_id": authority.turn_id,
        "at": "2026-01-02T03:04:05.678000Z",
        "content": "a\nb\u2028c\ud800",
    }
    assert delta.startswith("event: message.delta\ndata: ")
    assert json.loads(delta.partition("data: ")[2]) == {
        "message_id": "m",
        "turn_id": authority.turn_id,
        "attempt": 1,
        "offset": 0,
        "text": "zwei\nZeilen\r\n",
    }
    assert ended.startswith("id: 2\n")


@pytest.mark.parametrize(
    ("query", "header", "first"),
    [("", None, 1), ("?after=2", None, 3), ("", "3", 4), ("?after=1", "4", 5), ("?after=2", "", 3)],
)
async def test_a_client_goes_on_where_it_was(
    client: httpx.AsyncClient, authority: WireAuthority, query: str, header: str | None, first: int
) -> None:
    for number in range(6):
        authority.add_event("note", number=number)
    headers = {} if header is None else {"Last-Event-ID": header}
    async with client.stream("GET", path_of(authority) + query, headers=headers) as answer:
        async for frame in frames(answer):
            assert frame["id"] == str(first)
            break


@pytest.mark.parametrize("cursor", ["-1", "x", "1.0", "9" * 19, "²"])
async def test_a_cursor_that_is_none_is_refused(
    client: httpx.AsyncClient, authority: WireAuthority, cursor: str
) -> None:
    header = [(b"last-event-id", cursor.encode())]
    assert (await client.get(path_of(authority), headers=header)).status_code == 400


async def test_a_cursor_beyond_the_newest_event_is_refused(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    answer = await client.get(f"{path_of(authority)}?after=1")
    assert (answer.status_code, answer.json()["reason"]) == (400, "CURSOR_OUT_OF_RANGE")


async def test_a_client_does_not_notice_that_the_authority_restarts(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    seen: list[int] = []
    authority.add_event("note")
    async with client.stream("GET", f"{path_of(authority)}?turn={authority.turn_id}") as answer:
        async for frame in frames(answer):
            seen.append(frame["data"]["seq"])
            if len(seen) in (1, 3):
                await authority.stop()
                await authority.start()
                authority.add_event("note")
                authority.add_event("turn.ended" if len(seen) == 3 else "note")
    assert seen == [1, 2, 3, 4, 5]


async def test_an_idle_stream_keeps_sending_comments(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    async with asyncio.timeout(5), client.stream("GET", path_of(authority)) as answer:
        beats = 0
        async for line in answer.aiter_lines():
            assert line == "" or line.startswith(":")
            beats += line.startswith(": still")
            if beats == 3:
                break


async def test_a_stream_ends_when_its_key_is_revoked(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    async with asyncio.timeout(5), client.stream("GET", path_of(authority)) as answer:
        await until(lambda: authority.subscribers == 1)
        del authority.keys["good"]
        await answer.aread()
    await until(lambda: authority.subscribers == 0)


async def test_a_stream_ends_when_the_gateway_stops(
    client: httpx.AsyncClient, authority: WireAuthority, gateway: Gateway
) -> None:
    async with asyncio.timeout(2), client.stream("GET", path_of(authority)) as answer:
        gateway.stopping.set()
        await answer.aread()
    assert (await client.get("/readyz")).status_code == 503


async def test_a_client_that_leaves_takes_its_subscription_along(
    client: httpx.AsyncClient, authority: WireAuthority
) -> None:
    async with client.stream("GET", path_of(authority)):
        await until(lambda: authority.subscribers == 1)
    await until(lambda: authority.subscribers == 0, 3)
