"""Events are read as the specification says, over as many connections as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import httpx
import pytest
from tests.support.sse import SseClient, SseEvent

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def serving(answer: Callable[[str, int], list[bytes]]) -> AsyncIterator[httpx.AsyncClient]:
    """A server that answers each connection with pieces, chosen by `Last-Event-ID` and its number."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        last = next((x[15:] for x in head.split("\r\n") if x.startswith("last-event-id: ")), "")
        connections += 1
        for piece in answer(last.strip(), connections):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.005)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client
    server.close()


async def read(*pieces: bytes) -> list[SseEvent]:
    async with serving(lambda _last, _number: [HEAD, *pieces]) as http:
        return [event async for event in SseClient(http, "/events")]


async def test_fields_comments_and_lines() -> None:
    found = await read(
        b': ping\n\nid: 1\nevent: turn.queued\ndata: {\ndata:  "a": 1}\n\n',
        b'data:"no id"\r\n\r\n',
        b"id: 2\rdata: 2\r\r",
        b'event: text\ndata: "a\xe2\x80\xa8b\xc2\x85c"\nunknown: x\n\n',
        b"event: empty\n\ndata: cut off",
    )
    assert found == [
        ("1", "turn.queued", {"a": 1}),
        (None, "message", "no id"),
        ("2", "message", 2),
        (None, "text", "a\u2028b\u0085c"),
    ]


async def test_pieces_may_end_anywhere() -> None:
    whole = 'id: 1\r\nevent: a\r\ndata: "ü"\r\n\r\nid: 2\r\ndata: 2\r\n\r\n'.encode()
    found = await read(*(whole[i : i + 1] for i in range(len(whole))))
    assert found == [("1", "a", "ü"), ("2", "message", 2)]


async def test_it_comes_back_with_the_last_id() -> None:
    seen: list[str] = []

    def answer(last: str, number: int) -> list[bytes]:
        seen.append(last)
        if number == 2:
            return [b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]
        if number == 3:
            return []
        after = int(last)
        kind = "turn.ended" if after + 1 == 6 else "status"
        return [HEAD, f"id: {after + 1}\nevent: {kind}\ndata: {{}}\n\nevent: delta\ndata: 1\n\n".encode()]

    async with serving(answer) as http:
        client = SseClient(http, "/events", last_id=3)
        found = await client.until("turn.ended", 10)
    assert [(e.id, e.event) for e in found] == [
        ("4", "status"),
        (None, "delta"),
        ("5", "status"),
        (None, "delta"),
        ("6", "turn.ended"),
    ]
    assert seen == ["3", "4", "4", "4", "5"]
    assert (client.last_id, client.connections) == ("6", 3)


async def test_a_reader_may_leave_and_come_back() -> None:
    def answer(last: str, _number: int) -> list[bytes]:
        return [HEAD, *(f"id: {i}\ndata: {i}\n\n".encode() for i in range(int(last or 0) + 1, 8))]

    async with serving(answer) as http:
        client = SseClient(http, "/events")
        found: list[int] = []
        while len(found) < 7:
            async with aclosing(aiter(client)) as events:  # type: ignore[type-var]
                async for event in events:
                    found.append(event.data)
                    if len(found) % 3 == 0:
                        break
    assert found == [1, 2, 3, 4, 5, 6, 7]
    assert client.connections == 3


async def test_what_does_not_come_is_told() -> None:
    async with serving(lambda _last, _number: [HEAD, b"event: a\ndata: 1\n\n"]) as http:
        with pytest.raises(AssertionError, match=r"no 'b' within 0\.3 s; events: \['a'"):
            await SseClient(http, "/events").until("b", 0.3)


async def test_a_refusal_is_no_stream() -> None:
    refusal = b"HTTP/1.1 404 Gone\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope"
    async with serving(lambda _last, _number: [refusal]) as http:
        with pytest.raises(AssertionError, match="nope"):
            await SseClient(http, "/events").until("a", 5)
