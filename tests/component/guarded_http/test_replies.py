"""Answers: never longer, larger or stranger than allowed."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest
from tests.component.guarded_http.names import LOOPBACK
from tests.component.guarded_http.raw_server import Answer, raw_server, says

from herma.common.guarded_http import GuardedClient, PeerTimeout, ReplyTooLarge, ReplyUnusable


async def drip(_head: str) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    for number in range(2_000):
        yield f"X-{number}: x\r\n".encode()
        await asyncio.sleep(0.05)


async def silence(_head: str) -> AsyncIterator[bytes]:
    await asyncio.sleep(60)
    yield b""


async def slow_body(_head: str) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    for _ in range(1_000):
        yield b"x"
        await asyncio.sleep(0.05)


async def never_final(_head: str) -> AsyncIterator[bytes]:
    while True:
        yield b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100
        await asyncio.sleep(0)


@pytest.mark.parametrize("answer", [drip, silence, slow_body, never_final])
async def test_slowness_is_bounded(answer: Answer) -> None:
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(PeerTimeout):
            await client.request("GET", server.url(), timeout=0.5)


async def test_silence_is_bounded_where_the_whole_may_take_long() -> None:
    async def answer(_head: str) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
        for _ in range(12):
            yield b"x"
            await asyncio.sleep(0.1)
        await asyncio.sleep(600)

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        received = []

        async def read() -> None:
            async with client.reading("GET", server.url(), timeout=600, silence=1) as reading:
                async for chunk in reading.chunks:
                    received.append(chunk)

        with pytest.raises(PeerTimeout):
            await read()
        # Longer than the silence in all, never silent so long.
        assert b"".join(received) == b"x" * 12


async def test_redirects_share_the_time() -> None:
    async def answer(head: str) -> AsyncIterator[bytes]:
        await asyncio.sleep(0.2)
        async for data in says("302 Found", Location="/again")(head):
            yield data

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(PeerTimeout):
            await client.request("GET", server.url(), redirects=1_000, timeout=1)


async def endless(_head: str) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in range(10_000):
        yield b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


async def bomb(_head: str) -> AsyncIterator[bytes]:
    body = gzip.compress(b"\0" * 50_000_000)
    yield (
        f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


async def packed_nothing(_head: str) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    # Empty blocks (RFC 1951 §3.2.4): a stream that never ends and never holds anything.
    blocks = b"\x00\x00\x00\xff\xff" * 10_000
    data = gzip.compress(b"")[:10] + blocks
    while True:
        yield f"{len(data):x}\r\n".encode() + data + b"\r\n"
        data = blocks


async def packed_members(_head: str) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = gzip.compress(b"") * 2_000
    while True:
        yield f"{len(data):x}\r\n".encode() + data + b"\r\n"


@pytest.mark.parametrize("answer", [endless, bomb, packed_nothing, packed_members])
async def test_size_is_bounded_after_decompression(answer: Answer) -> None:
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(ReplyTooLarge):
            await client.request("GET", server.url(), max_bytes=200_000)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 700_001])
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP"])
async def test_gzip_is_read(size: int, encoding: str) -> None:
    text = (b"hello " * 200_000)[:size]
    answer = says("200 OK", gzip.compress(text), Content_Encoding=encoding)
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        assert (await client.request("GET", server.url())).body == text


async def test_all_members_of_gzip_are_read() -> None:
    # RFC 1952 §2.2; the first one alone would be another text than what other clients see.
    body = gzip.compress(b"one ") + gzip.compress(b"two")
    answer = says("200 OK", body, Content_Encoding="gzip")
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        assert (await client.request("GET", server.url())).body == b"one two"


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_nothing_needs_no_decoding(method: str) -> None:
    async def answer(_head: str) -> AsyncIterator[bytes]:
        length = 1234 if method == "HEAD" else 0
        yield f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n".encode()

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        reply = await client.request(method, server.url())
        assert (reply.status, reply.body) == (200, b"")


async def test_headers_that_repeat_are_joined() -> None:
    async def answer(_head: str) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nVia: a\r\nvia: b\r\nContent-Length: 0\r\n\r\n"

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        assert (await client.request("GET", server.url())).headers["via"] == "a, b"


@pytest.mark.parametrize(
    "answer",
    [
        says("200 OK", b"x", Content_Encoding="br"),
        says("200 OK", b"not gzip", Content_Encoding="gzip"),
        says("200 OK", gzip.compress(b"x" * 1000)[:-20], Content_Encoding="gzip"),
        says("200 OK", gzip.compress(b"x") + b"trailing", Content_Encoding="gzip"),
        says("200 OK", gzip.compress(gzip.compress(b"x")), Content_Encoding="gzip, gzip"),
        says("200 OK", zlib.compress(b"x"), Content_Encoding="deflate"),
        says("200 OK", b"", X_Huge="x" * 1_000_000),
        says("200 OK", b"", **{f"X_{number}": "x" * 1000 for number in range(1_000)}),
        says("101 Switching Protocols", b"", Upgrade="h2c"),
    ],
)
async def test_what_cannot_be_used_is_refused(answer: Answer) -> None:
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(ReplyUnusable):
            await client.request("GET", server.url())


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 1_000_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        b"HTTP/1.1 200 OK\r\n: nameless\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused(data: bytes) -> None:
    async def answer(_head: str) -> AsyncIterator[bytes]:
        yield data

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(ReplyUnusable):
            await client.request("GET", server.url())
