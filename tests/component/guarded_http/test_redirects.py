"""Redirects: each hop judged like the first, and what goes along."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.component.guarded_http.certificates import Certificates
from tests.component.guarded_http.names import LOOPBACK, ONE_ADDRESS, Names
from tests.component.guarded_http.raw_server import raw_server, says

from herma.common.guarded_http import Credential, GuardedClient, Origin, ReplyUnusable, UrlRefused
from herma.common.guarded_http.target import parse_target


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
        "http://0x7f000002/",
        "http://0177.0.0.2/",
        "http://[::ffff:127.0.0.2]/",
        "http://169.254.169.254/latest/meta-data/",
        "https://127.0.0.2/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "ftp://127.0.0.1/",
        "data:text/plain,hi",
        "unix:/var/run/docker.sock",
        "http://u@127.0.0.1/",
        "//user@127.0.0.1/",
        "/\\127.0.0.2/",
        "\\\\127.0.0.2\\",
        "/a b",
    ],
)
async def test_a_redirect_inside_is_refused(location: str) -> None:
    answer = says("302 Found", b"", Location=location)
    async with raw_server(answer) as server, GuardedClient(ONE_ADDRESS) as client:
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url(), redirects=5)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"),
        ("HEAD", 303, "HEAD"),
        ("HEAD", 302, "HEAD"),
        ("DELETE", 308, "DELETE"),
    ],
)
async def test_a_redirect_keeps_or_drops_the_method_and_the_body(
    method: str, status: int, then: str
) -> None:
    async def answer(head: str) -> AsyncIterator[bytes]:
        first = "/first" in head
        said = says(f"{status} Onward", b"", Location="/second") if first else says("200 OK")
        async for data in said(head):
            yield data

    body = b"body" if method in ("POST", "PUT") else b""
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        await client.request(
            method,
            server.url("/first"),
            headers={"content-type": "text/x-mine", "x-mine": "kept"},
            body=body,
            redirects=1,
        )
        head = server.asked[1].lower()
        assert head.startswith(f"{then.lower()} /second")
        assert "x-mine: kept" in head
        assert ("content-length: 4" in head) == (then == method and bool(body))
        assert ("content-type" in head) == (then == method)


async def test_a_loop_ends() -> None:
    async with (
        raw_server(says("302 Found", Location="/again")) as server,
        GuardedClient(LOOPBACK) as client,
    ):
        assert (await client.request("GET", server.url(), redirects=7)).status == 302
        assert len(server.asked) == 8


async def test_a_name_that_changes_between_hops_is_judged_anew() -> None:
    names = Names(moving_example=["127.0.0.1", "127.0.0.2"])
    answer = says("302 Found", Location="/again")
    async with raw_server(answer) as server, GuardedClient(ONE_ADDRESS, names) as client:
        with pytest.raises(UrlRefused):
            await client.request("GET", server.url(host="moving.example"), redirects=5)
        assert len(server.asked) == 1


async def test_several_ways_on_are_none() -> None:
    async def answer(_head: str) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"

    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with pytest.raises(ReplyUnusable):
            await client.request("GET", server.url(), redirects=5)


async def test_a_redirect_does_not_leave_tls() -> None:
    certificates = Certificates()
    names = Names(good_example=["127.0.0.1"])
    async with raw_server(says("200 OK")) as plain:
        answer = says("302 Found", Location=plain.url())
        async with (
            raw_server(answer, tls=certificates.server("good.example")) as server,
            GuardedClient(LOOPBACK, names, certificates.client) as client,
        ):
            with pytest.raises(UrlRefused):
                await client.request("GET", server.url(host="good.example", scheme="https"), redirects=1)
        assert plain.asked == []


async def test_little_goes_along_to_another_origin() -> None:
    names = Names(other_example=["127.0.0.1"])

    async def answer(head: str) -> AsyncIterator[bytes]:
        location = f"http://other.example:{server.port}/there" if "/here" in head else ""
        async for data in (says("307 T", b"", Location=location) if location else says("200 OK"))(head):
            yield data

    async with raw_server(answer) as server, GuardedClient(LOOPBACK, names) as client:
        given = {"accept": "text/plain", "x-api-key": "s3cret", "webhook-signature": "s3cret"}
        assert (
            await client.request("GET", server.url("/here"), headers=given, redirects=1)
        ).status == 200
        assert "s3cret" not in server.asked[1]
        assert "accept: text/plain" in server.asked[1].lower()
        # Nor does a body, which may hold secrets just as well.
        with pytest.raises(UrlRefused):
            await client.request("POST", server.url("/here"), body=b"s3cret", redirects=1)
        assert len(server.asked) == 3


@pytest.mark.parametrize(
    "origin",
    [
        Origin("https", "127.0.0.1", 0),
        Origin("http", "127.0.0.1", 1),
        Origin("http", "127.0.0.2", 0),
        Origin("http", "localhost", 0),
    ],
)
async def test_a_credential_of_another_origin_is_not_sent(origin: Origin) -> None:
    async with raw_server(says("200 OK")) as server, GuardedClient(LOOPBACK) as client:
        elsewhere = Origin(origin.scheme, origin.host, origin.port or server.port)
        credential = Credential(elsewhere, "authorization", "Bearer s3cret")
        assert (await client.request("GET", server.url(), credential=credential)).status == 200
        assert "s3cret" not in server.asked[0]


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
