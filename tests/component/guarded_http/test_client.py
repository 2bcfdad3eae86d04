"""Requests to URLs of others: only where they may go, and never longer or larger than allowed."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import ssl
from collections.abc import AsyncIterator, Sequence

import pytest
import trustme
from tests.component.guarded_http.raw_server import raw_server, says

from herma.common.errors import HermaError, InvalidArgument
from herma.common.guarded_http import AddressPolicy, Credential, GuardedClient, UrlRefused
from herma.common.guarded_http.addresses import Address
from herma.common.guarded_http.client import ReplyTooLarge, ReplyUnusable
from herma.common.guarded_http.network import PeerUnreachable
from herma.common.guarded_http.target import parse_target

LOOPBACK = AddressPolicy((ipaddress.ip_network("127.0.0.0/8"),))
ONE_ADDRESS = AddressPolicy((ipaddress.ip_network("127.0.0.1/32"),))


class Names:
    """A resolver with answers of its own; each look-up of a name takes the next."""

    def __init__(self, **answers: Sequence[str]) -> None:
        self._answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def addresses(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        given = self._answers.get(host)
        if not given:
            raise OSError("no such name")
        return [
            ipaddress.ip_address(text) for text in (given.pop(0) if len(given) > 1 else given[0]).split()
        ]


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
    async with raw_server(says("200 OK")) as server, GuardedClient(AddressPolicy()) as client:
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


async def test_one_bad_address_of_a_name_refuses_all() -> None:
    names = Names(mixed_example=["127.0.0.1 127.0.0.2"])
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


async def test_a_redirect_is_followed_as_often_as_allowed() -> None:
    async def answer(head: str) -> AsyncIterator[bytes]:
        number = int(head.split()[1].rpartition("/")[2] or 0)
        async for data in says("302 Found", b"", Location=f"/{number + 1}")(head):
            yield data

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        reply = await client.request("GET", server.url("/0"), redirects=3)
        assert (reply.status, reply.url) == (302, server.url("/3"))
        assert len(server.asked) == 4
        assert (await client.request("GET", server.url("/0"))).headers["location"] == "/1"


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2/",
        "//127.0.0.2/",
        "http://2130706434/",
        "file:///etc/passwd",
        "http://u@127.0.0.1/",
    ],
)
async def test_a_redirect_inside_is_refused(location: str) -> None:
    answer = says("302 Found", b"", Location=location)
    async with raw_server(answer) as server, GuardedClient(ONE_ADDRESS) as client:
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url(), redirects=5)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "method"), [("303 See Other", "GET"), ("302 Found", "GET"), ("307 T", "POST")]
)
async def test_a_redirect_keeps_or_drops_the_body(status: str, method: str) -> None:
    async def answer(head: str) -> AsyncIterator[bytes]:
        first = head.startswith("POST /first")
        async for data in (says(status, b"", Location="/second") if first else says("200 OK"))(head):
            yield data

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        await client.request("POST", server.url("/first"), body=b"body", redirects=1)
        assert server.asked[1].startswith(f"{method} /second")
        assert ("content-length: 4" in server.asked[1].lower()) == (method == "POST")


async def test_a_credential_stays_with_its_origin() -> None:
    names = Names(other_example=["127.0.0.1"])

    async def answer(head: str) -> AsyncIterator[bytes]:
        onward = {"/here": "/there", "/there": f"http://other.example:{server.port}/gone"}
        location = onward.get(head.split()[1])
        async for data in (says("307 T", b"", Location=location) if location else says("200 OK"))(head):
            yield data

    async with raw_server(answer) as server, GuardedClient(LOOPBACK, names) as client:
        credential = Credential(parse_target(server.url()).origin, "authorization", "Bearer s3cret")
        reply = await client.request("GET", server.url("/here"), credential=credential, redirects=5)
        assert reply.status == 200
        assert ["s3cret" in head for head in server.asked] == [True, True, False]
        assert "s3cret" not in repr(credential)


@pytest.mark.parametrize(
    "header", ["Host", "authorization", "Cookie", "Content-Length", "Transfer-Encoding"]
)
async def test_what_is_not_the_callers_to_say_is_refused(header: str) -> None:
    async with GuardedClient(LOOPBACK) as client:
        with pytest.raises(InvalidArgument):
            await client.request("GET", "http://127.0.0.1:1/", headers={header: "x"})


async def test_headers_cannot_smuggle() -> None:
    async with raw_server(says("200 OK")) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(InvalidArgument):
            await client.request("GET", server.url(), headers={"x": "1\r\nHost: other"})
        assert server.asked == []


async def test_nothing_of_this_machine_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with (
        raw_server(says("200 OK", b"", Set_Cookie="a=b")) as server,
        GuardedClient(LOOPBACK) as client,
    ):
        for _ in range(2):
            assert (await client.request("GET", server.url())).status == 200
        assert not any("cookie" in head.lower() for head in server.asked)


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


@pytest.mark.parametrize("answer", [drip, silence, slow_body])
async def test_slowness_is_bounded(answer) -> None:
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(PeerUnreachable):
            await client.request("GET", server.url(), timeout=0.5)


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


@pytest.mark.parametrize("answer", [endless, bomb])
async def test_size_is_bounded_after_decompression(answer) -> None:
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(ReplyTooLarge):
            await client.request("GET", server.url(), max_bytes=200_000)


async def test_gzip_is_read() -> None:
    body = gzip.compress(b"hello " * 100_000)
    answer = says("200 OK", body, Content_Encoding="gzip")
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        assert (await client.request("GET", server.url())).body == b"hello " * 100_000


@pytest.mark.parametrize(
    "answer",
    [
        says("200 OK", b"x", Content_Encoding="br"),
        says("200 OK", b"not gzip", Content_Encoding="gzip"),
        says("200 OK", gzip.compress(b"x" * 1000)[:-20], Content_Encoding="gzip"),
        says("200 OK", b"", X_Huge="x" * 1_000_000),
    ],
)
async def test_what_cannot_be_used_is_refused(answer) -> None:
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(ReplyUnusable):
            await client.request("GET", server.url())


async def test_what_is_no_http_is_refused() -> None:
    async def answer(_head: str) -> AsyncIterator[bytes]:
        yield b"SSH-2.0-OpenSSH_9.2\r\n"

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(ReplyUnusable):
            await client.request("GET", server.url())


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


class Certificates:
    """An authority of our own."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.client = ssl.create_default_context()
        self.authority.configure_trust(self.client)

    def server(self, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(name).configure_cert(context)
        return context


async def test_certificates_are_verified_against_the_name() -> None:
    certificates = Certificates()
    names = Names(good_example=["127.0.0.1"], other_example=["127.0.0.1"])
    tls = certificates.server("good.example")
    async with raw_server(says("200 OK"), tls=tls) as server:
        good = server.url(host="good.example", scheme="https")
        async with GuardedClient(LOOPBACK, names, certificates.client) as client:
            assert (await client.request("GET", good)).status == 200
            with pytest.raises(PeerUnreachable):
                await client.request("GET", server.url(host="other.example", scheme="https"))
        async with GuardedClient(LOOPBACK, names) as client:
            with pytest.raises(PeerUnreachable):
                await client.request("GET", good)


async def test_without_tls_only_where_the_operator_says_so() -> None:
    # A public address by the policy, that nobody need reach: judged before it is asked.
    names = Names(public_example=["1.1.1.1"])
    async with GuardedClient(AddressPolicy(), names) as client:
        with pytest.raises(UrlRefused):
            await client.request("GET", "http://public.example/")
