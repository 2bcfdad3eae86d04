"""Requests to URLs that somebody else chose.

Every hop of a redirect is taken apart and judged like the first URL.  Nothing of this machine goes along:
no proxy settings, no `.netrc`, no cookies.  Sizes are counted after decompression.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import httpcore
from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from herma.common.errors import HermaError, InvalidArgument, Kind
from herma.common.guarded_http.addresses import AddressPolicy
from herma.common.guarded_http.network import GuardedNetwork, PeerUnreachable, Resolver, SystemResolver
from herma.common.guarded_http.target import Origin, Target, parse_target

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# What a client of ours may not say for itself; credentials travel as `Credential`.
_RESERVED: Final = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "proxy-authorization",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
_CHUNK: Final = 64 * 1024
_USER_AGENT: Final = "Herma"


class ReplyTooLarge(HermaError):
    """The other side's answer is larger than allowed."""

    kind = Kind.UNAVAILABLE
    reason = "REPLY_TOO_LARGE"


class ReplyUnusable(HermaError):
    """The other side's answer is no HTTP, or encoded in a way that was not asked for."""

    kind = Kind.UNAVAILABLE
    reason = "REPLY_UNUSABLE"


@dataclass(frozen=True, slots=True)
class Credential:
    """A header that goes to one origin only."""

    origin: Origin
    header: str
    value: str

    def __repr__(self) -> str:
        """Without the value."""
        return f"Credential({self.origin}, {self.header})"


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer that is being read.  `headers` have lower-case names; of several, the last."""

    status: int
    headers: Mapping[str, str]
    url: str
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that was read."""

    status: int
    headers: Mapping[str, str]
    url: str
    body: bytes


class GuardedClient:
    """Makes requests.

    Args:
        policy: Which addresses may be reached.
        resolver: Looks names up.
        tls: For tests with an authority of their own; certificates are always verified.
        plain_anywhere: Also http, not only https, to public addresses.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        plain_anywhere: bool = False,
    ) -> None:
        resolver = resolver or SystemResolver()
        context = tls or ssl.create_default_context()
        self._tracer = trace.get_tracer("herma.guarded_http")
        self._pools = {
            scheme: httpcore.AsyncConnectionPool(
                ssl_context=context,
                max_connections=100,
                max_keepalive_connections=20,
                keepalive_expiry=15,
                network_backend=GuardedNetwork(
                    policy, resolver, plain=scheme == "http", plain_anywhere=plain_anywhere
                ),
            )
            for scheme in ("https", "http")
        }

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        credential: Credential | None = None,
        timeout: float = 10.0,
        max_bytes: int = 1024 * 1024,
        redirects: int = 0,
    ) -> Reply:
        """Makes one request and reads the answer.

        Args:
            headers: Besides those of every request.
            timeout: Seconds for all of it.
            max_bytes: Of the answer's body, decompressed.
            redirects: How many are followed; the one beyond is answered as it is.

        Raises:
            UrlRefused: when the URL, or one that it redirects to, may not be reached.
            PeerUnreachable: when the other side does not answer in time.
            ReplyTooLarge, ReplyUnusable: for an answer that is not taken.
            InvalidArgument: for headers that cannot be sent.
        """
        reading_of = self.reading(
            method,
            url,
            headers=headers,
            body=body,
            credential=credential,
            timeout=timeout,
            max_bytes=max_bytes,
            redirects=redirects,
        )
        async with reading_of as reading:
            received = b"".join([chunk async for chunk in reading.chunks])
            return Reply(reading.status, reading.headers, reading.url, received)

    @asynccontextmanager
    async def reading(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        credential: Credential | None = None,
        timeout: float = 10.0,
        max_bytes: int = 1024 * 1024,
        redirects: int = 0,
    ) -> AsyncIterator[Reading]:
        """As `request`, with the body still to be read; the time runs until the block ends."""
        target = parse_target(url)
        given = _checked(headers or {})
        try:
            async with asyncio.timeout(timeout):
                while True:
                    async with self._hop(method, target, given, body, credential) as response:
                        onward = _onward(target, response) if redirects else None
                        if onward is None:
                            yield Reading(
                                response.status,
                                _named(response.headers),
                                target.url,
                                _decoded(response, max_bytes),
                            )
                            return
                    redirects -= 1
                    if response.status == 303 or (response.status in (301, 302) and method == "POST"):
                        method, body = "GET", b""
                    target = onward
        except TimeoutError as error:
            raise PeerUnreachable from error

    async def close(self) -> None:
        """Closes all connections."""
        for pool in self._pools.values():
            await pool.aclose()

    async def __aenter__(self) -> GuardedClient:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def _hop(
        self,
        method: str,
        target: Target,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        credential: Credential | None,
    ) -> AsyncIterator[httpcore.Response]:
        sent = [*headers, ("user-agent", _USER_AGENT), ("accept-encoding", "gzip")]
        if credential is not None and credential.origin == target.origin:
            sent.append((credential.header, credential.value))
        # An empty body is announced where one is expected.
        content = body if body or method in ("POST", "PUT", "PATCH") else None
        with self._span(method, target) as span:
            try:
                async with self._pools[target.origin.scheme].stream(
                    method, target.url, headers=sent, content=content
                ) as response:
                    span.set_attribute("http.response.status_code", response.status)
                    yield response
            except HermaError as error:
                span.set_attribute("error.type", error.reason)
                span.set_status(Status(StatusCode.ERROR, error.reason))
                raise
            except httpcore.LocalProtocolError as error:
                raise InvalidArgument("these headers cannot be sent") from error
            except (httpcore.RemoteProtocolError, httpcore.UnsupportedProtocol) as error:
                raise ReplyUnusable from error
            except (httpcore.NetworkError, httpcore.TimeoutException, ssl.SSLError, OSError) as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR, "URL_UNREACHABLE"))
                raise PeerUnreachable from error

    def _span(self, method: str, target: Target) -> Any:
        # Paths and queries of others may hold secrets.
        return self._tracer.start_as_current_span(
            method,
            kind=SpanKind.CLIENT,
            attributes={
                "http.request.method": method,
                "server.address": target.origin.host,
                "server.port": target.origin.port,
                "url.scheme": target.origin.scheme,
            },
            record_exception=False,
            set_status_on_exception=False,
        )


def _checked(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    for name in headers:
        if name.lower() in _RESERVED:
            raise InvalidArgument(f"the header {name!r} is not the caller's to set")
    return [(name.lower(), value) for name, value in headers.items()]


def _onward(target: Target, response: httpcore.Response) -> Target | None:
    location = _named(response.headers).get("location")
    if response.status not in _REDIRECTS or location is None:
        return None
    return target.joined(location)


def _named(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


async def _decoded(response: httpcore.Response, limit: int) -> AsyncIterator[bytes]:
    encoding = _named(response.headers).get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise ReplyUnusable("the answer is encoded in a way that was not asked for")
    inflating = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    size = 0
    async for raw in response.aiter_stream():
        for chunk in _inflated(inflating, raw):
            size += len(chunk)
            if size > limit:
                raise ReplyTooLarge(f"the answer is larger than {limit} bytes")
            yield chunk
    if inflating is not None and not inflating.eof:
        raise ReplyUnusable("the answer is cut short")


def _inflated(inflating: Any, raw: bytes) -> Any:
    if inflating is None:
        yield raw
        return
    try:
        while raw and not inflating.eof:
            # In pieces: a small input may be a very large output.
            yield inflating.decompress(raw, _CHUNK)
            raw = inflating.unconsumed_tail
    except zlib.error as error:
        raise ReplyUnusable("the answer is not what its encoding says") from error
