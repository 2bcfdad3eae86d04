"""Requests to URLs of others: only where they may go, and never longer or larger than allowed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.component.guarded_http.names import LOOPBACK, ONE_ADDRESS, Names
from tests.component.guarded_http.raw_server import RawServer, raw_server, says
from tests.support.waiting import eventually

from herma.common.errors import HermaError, InvalidArgument
from herma.common.guarded_http import (
    AddressPolicy,
    Credential,
    GuardedClient,
    Origin,
    PeerTimeout,
    PeerUnreachable,
    UrlRefused,
)
from herma.common.guarded_http.addresses import Address


async def test_an_answer_is_read() -> None:
    async with (
        raw_server(says("200 OK", b"hello", X_Kind="test")) as server,
        GuardedClient(LOOPBACK) as client,
    ):
        reply = await client.request("GET", server.url("/a?b"), headers={"x-mine": "1"})
        assert (reply.status, reply.body, reply.headers["x-kind"]) == (200, b"hello", "test")
        (head,) = server.asked
        assert head.startswith("GET /a?b HTTP/1.1\r\n")
        assert "x-mine: 1" in head.lower()


async def test_an_empty_post_announces_its_length() -> None:
    async with raw_server(says("204 No Content")) as server, GuardedClient(LOOPBACK) as client:
        assert (await client.request("POST", server.url())).status == 204
        assert "content-length: 0" in server.asked[0].lower()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "localhost"])
async def test_nothing_inside_is_reached(host: str) -> None:
    # Without TLS everywhere, so that it is the address that refuses.
    async with (
        raw_server(says("200 OK")) as server,
        GuardedClient(AddressPolicy(), plain_anywhere=True) as client,
    ):
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url(host=host))
        assert server.asked == []


async def test_inside_and_nowhere_look_alike() -> None:
    names = Names(inside_example=["127.0.0.1"])
    async with GuardedClient(AddressPolicy(), names) as client:
        refusals = []
        for host in ("inside.example", "nowhere.example"):
            with pytest.raises(HermaError) as caught:
                await client.request("GET", f"https://{host}/")
            refusals.append((caught.value.reason, caught.value.message, caught.value.kind))
        assert refusals[0] == refusals[1]


@pytest.mark.parametrize(
    "answers",
    ["127.0.0.1 127.0.0.2", "127.0.0.2 127.0.0.1", " ".join(["127.0.0.1"] * 99 + ["127.0.0.2"])],
)
async def test_one_bad_address_of_a_name_refuses_all(answers: str) -> None:
    names = Names(mixed_example=[answers])
    async with raw_server(says("200 OK")) as server, GuardedClient(ONE_ADDRESS, names) as client:
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url(host="mixed.example"))
        assert server.asked == []


async def test_a_name_is_looked_up_once_for_a_connection() -> None:
    names = Names(rebound_example=["127.0.0.1", "127.0.0.2"])
    async with raw_server(says("200 OK")) as server, GuardedClient(ONE_ADDRESS, names) as client:
        assert (await client.request("GET", server.url(host="rebound.example"))).status == 200
        assert names.asked == ["rebound.example"]
        # The connection is gone: the next one is judged anew.
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url(host="rebound.example"))
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "header",
    ["Host", "authorization", "Cookie", "Content-Length", "Transfer-Encoding", "host ", "a\tb", "", "é"],
)
async def test_what_is_not_the_callers_to_say_is_refused(header: str) -> None:
    async with GuardedClient(LOOPBACK) as client:
        with pytest.raises(InvalidArgument):
            await client.request("GET", "http://127.0.0.1:1/", headers={header: "x"})


@pytest.mark.parametrize(
    "headers",
    [
        {"x": "1\r\nHost: other"},
        {"x": "1\n"},
        {"x": "a\0b"},
        {"x": "caf\u00e9"},
        {"x": "\ud800"},
        {"X": "1", "x": "2"},
        {"x": "1" * 40_000},
    ],
)
async def test_headers_cannot_smuggle(headers: dict[str, str]) -> None:
    async with raw_server(says("200 OK")) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(InvalidArgument):
            await client.request("GET", server.url(), headers=headers)
        for name, value in headers.items():
            if len(headers) == 1:
                with pytest.raises(InvalidArgument) as caught:
                    Credential(Origin("http", "127.0.0.1", server.port), name, value)
                assert value not in caught.value.message
        assert server.asked == []


@pytest.mark.parametrize("header", ["Host", "content-length", "Proxy-Authorization", "x\r\ny"])
def test_what_cannot_be_a_credential_is_refused(header: str) -> None:
    with pytest.raises(InvalidArgument):
        Credential.for_url("https://example.com/", header, "x")


@pytest.mark.parametrize(
    "method", ["CONNECT", "TRACE", "get", "", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET", "PRI"]
)
async def test_odd_methods_are_refused(method: str) -> None:
    async with raw_server(says("200 OK")) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(InvalidArgument):
            await client.request(method, server.url())
        assert server.asked == []


async def test_an_address_of_ipv6_is_named_in_brackets() -> None:
    policy = AddressPolicy((ipaddress.ip_network("::1/128"),))
    async with raw_server(says("200 OK"), host="::1") as server, GuardedClient(policy) as client:
        assert (await client.request("GET", server.url(host="[::1]"))).status == 200
        assert f"host: [::1]:{server.port}\r\n" in server.asked[0].lower()


async def test_a_mapped_address_is_the_one_that_it_means() -> None:
    async with raw_server(says("200 OK")) as server, GuardedClient(ONE_ADDRESS) as client:
        assert (await client.request("GET", server.url(host="[::ffff:127.0.0.1]"))).status == 200
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url(host="[::ffff:127.0.0.2]"))


async def test_what_is_denied_is_not_reached_though_it_is_allowed() -> None:
    policy = AddressPolicy(LOOPBACK.allowed, (ipaddress.ip_network("127.0.0.1/32"),))
    async with raw_server(says("200 OK")) as server, GuardedClient(policy, plain_anywhere=True) as client:
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url())
        assert server.asked == []


async def test_only_ports_that_the_operator_allows_are_reached() -> None:
    async with raw_server(says("302 Found", Location="http://127.0.0.1:22/")) as server:
        policy = AddressPolicy(LOOPBACK.allowed, ports=(range(server.port, server.port + 1),))
        async with GuardedClient(policy) as client:
            assert (await client.request("GET", server.url())).status == 302
            for url in ("http://127.0.0.1/", "http://127.0.0.1:22/", "http://127.0.0.1:65535/"):
                with pytest.raises(UrlRefused):
                    await client.request("GET", url)
            with pytest.raises(UrlRefused):
                await client.request("GET", server.url(), redirects=1)


class Brief:
    """A resolver with one failure."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    async def addresses(self, host: str) -> Sequence[Address]:
        raise self._failure


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (socket.gaierror(socket.EAI_NONAME, "no name"), UrlRefused),
        (socket.gaierror(socket.EAI_FAIL, "failed"), UrlRefused),
        # Try again: a delivery is not given up because a name server hiccups.
        (socket.gaierror(socket.EAI_AGAIN, "again"), PeerUnreachable),
        (TimeoutError(), PeerTimeout),
    ],
)
async def test_a_name_that_cannot_be_looked_up_now_is_not_refused_for_good(
    failure: Exception, expected: type[HermaError]
) -> None:
    async with GuardedClient(AddressPolicy(), Brief(failure)) as client:
        with pytest.raises(expected):
            await client.request("GET", "https://some.example/")


@pytest.mark.parametrize("error", [OSError("disk full"), TimeoutError("of the reader"), KeyError("k")])
async def test_what_goes_wrong_with_the_reader_is_not_blamed_on_the_peer(error: Exception) -> None:
    async with raw_server(says("200 OK", b"hello")) as server, GuardedClient(LOOPBACK) as client:

        async def read() -> None:
            async with client.reading("GET", server.url()) as reading:
                async for _ in reading.chunks:
                    raise error

        with pytest.raises(type(error)) as caught:
            await read()
        assert caught.value is error


@asynccontextmanager
async def kept_open() -> AsyncIterator[RawServer]:
    """A server that answers any number of requests on a connection; `asked` begins with its port."""
    served = RawServer()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                served.asked.append(f"{writer.get_extra_info('peername')[1]} {head.split()[1].decode()}")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for writer in writers:
            writer.close()


async def test_a_kept_connection_serves_its_own_name_only() -> None:
    # Both names lead to the same server, but the second has an address beside it that is not allowed.
    names = Names(good_example=["127.0.0.1", "127.0.0.2"], bad_example=["127.0.0.1 127.0.0.2"])
    async with kept_open() as server, GuardedClient(ONE_ADDRESS, names) as client:
        for path in ("/1", "/2"):
            assert (await client.request("GET", server.url(path, "good.example"))).body == b"ok"
        # One connection: what was vouched for stays, whatever the name says meanwhile.
        assert names.asked == ["good.example"]
        assert len({asked.split()[0] for asked in server.asked}) == 1
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url("/3", "bad.example"))
        assert len(server.asked) == 2


async def test_nobody_gets_all_of_the_connections() -> None:
    let_go = asyncio.Event()
    waiting = 0

    async def answer(head: str) -> AsyncIterator[bytes]:
        nonlocal waiting
        if "/slow" in head:
            waiting += 1
            await let_go.wait()
        async for data in says("200 OK")(head):
            yield data

    async with (
        raw_server(answer) as server,
        GuardedClient(LOOPBACK, most_per_holder=4) as client,
        asyncio.TaskGroup() as group,
    ):
        slow = [
            group.create_task(client.request("GET", server.url("/slow"), holder="greedy", timeout=60))
            for _ in range(300)
        ]
        await eventually(lambda: waiting >= 4, "the greedy one's share is used")
        assert (
            await client.request("GET", server.url("/fast"), holder="modest", timeout=20)
        ).status == 200
        assert waiting == 4
        # A wait for one's own share ends in time, too.
        with pytest.raises(PeerTimeout):
            await client.request("GET", server.url("/fast"), holder="greedy", timeout=0.2)
        let_go.set()
        assert [(await task).status for task in slow] == [200] * 300


def test_certificates_cannot_be_left_unverified() -> None:
    tls = ssl.create_default_context()
    tls.check_hostname = False
    with pytest.raises(ValueError, match="verified"):
        GuardedClient(LOOPBACK, tls=tls)


async def test_nothing_of_this_machine_goes_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password s3cret")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with (
        raw_server(says("200 OK", b"", Set_Cookie="a=b")) as server,
        GuardedClient(LOOPBACK) as client,
    ):
        for _ in range(2):
            assert (await client.request("GET", server.url())).status == 200
        for head in server.asked:
            names = {line.partition(":")[0].lower() for line in head.splitlines()[1:] if line}
            assert names == {"host", "user-agent", "accept-encoding"}


async def test_nobody_there_is_said_so() -> None:
    async with raw_server(says("200 OK")) as server:
        port = server.port
    async with GuardedClient(LOOPBACK) as client:
        with pytest.raises(PeerUnreachable):
            await client.request("GET", f"http://127.0.0.1:{port}/")


async def test_the_next_address_is_tried() -> None:
    names = Names(two_example=["127.0.0.9 127.0.0.1"])
    async with raw_server(says("200 OK")) as server, GuardedClient(LOOPBACK, names) as client:
        assert (await client.request("GET", server.url(host="two.example"))).status == 200


async def test_without_tls_only_where_the_operator_says_so() -> None:
    # A public address by the policy, that nobody need reach: judged before it is asked.
    names = Names(public_example=["1.1.1.1"])
    async with GuardedClient(AddressPolicy(), names) as client:
        with pytest.raises(UrlRefused):
            await client.request("GET", "http://public.example/")
