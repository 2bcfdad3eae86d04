"""TLS: the other side proves that it is who the URL names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.component.guarded_http.certificates import Certificates
from tests.component.guarded_http.names import LOOPBACK, Names
from tests.component.guarded_http.raw_server import raw_server, says

from herma.common.guarded_http import GuardedClient, PeerTimeout, PeerUnreachable, PeerUntrusted


@pytest.mark.parametrize("name", ["good.example", "127.0.0.1"])
async def test_a_good_certificate_is_accepted(name: str) -> None:
    certificates = Certificates()
    names = Names(good_example=["127.0.0.1"])
    async with (
        raw_server(says("200 OK"), tls=certificates.server(name)) as server,
        GuardedClient(LOOPBACK, names, certificates.client) as client,
    ):
        assert (await client.request("GET", server.url(host=name, scheme="https"))).status == 200


@pytest.mark.parametrize(
    ("issued", "asked", "ended", "why"),
    [
        ("good.example", "other.example", False, "ostname mismatch"),
        ("good.example", "127.0.0.1", False, "IP address mismatch"),
        ("127.0.0.1", "good.example", False, "ostname mismatch"),
        ("*.example", "a.good.example", False, "ostname mismatch"),
        ("good.example", "good.example", True, "expired"),
    ],
)
async def test_a_certificate_for_another_or_of_yesterday_is_refused(
    issued: str, asked: str, ended: bool, why: str
) -> None:
    certificates = Certificates()
    names = Names(good_example=["127.0.0.1"], other_example=["127.0.0.1"], a_good_example=["127.0.0.1"])
    async with (
        raw_server(says("200 OK"), tls=certificates.server(issued, ended=ended)) as server,
        GuardedClient(LOOPBACK, names, certificates.client) as client,
    ):
        with pytest.raises(PeerUntrusted, match=why):
            await client.request("GET", server.url(host=asked, scheme="https"))
        assert server.asked == []


async def test_an_authority_that_nobody_trusts_is_refused() -> None:
    names = Names(good_example=["127.0.0.1"])
    tls = Certificates().server("good.example")
    async with raw_server(says("200 OK"), tls=tls) as server, GuardedClient(LOOPBACK, names) as client:
        with pytest.raises(PeerUntrusted):
            await client.request("GET", server.url(host="good.example", scheme="https"))
        assert server.asked == []


@asynccontextmanager
async def listening(serve: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """The address of a server that waits for nothing that the client says."""
    tasks: set[asyncio.Task[None]] = set()

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(serve(writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_speaks_no_tls_is_refused() -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with listening(serve) as url, GuardedClient(LOOPBACK) as client:
        with pytest.raises(PeerUntrusted):
            await client.request("GET", url)


async def test_a_handshake_that_is_cut_is_a_peer_out_of_reach() -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(serve) as url, GuardedClient(LOOPBACK) as client:
        with pytest.raises(PeerUnreachable):
            await client.request("GET", url)


async def test_a_handshake_that_never_ends_is_bounded() -> None:
    async def serve(_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with listening(serve) as url, GuardedClient(LOOPBACK) as client:
        with pytest.raises(PeerTimeout):
            await client.request("GET", url, timeout=0.5)
