"""Requests to URLs that somebody else chose.

Every hop of a redirect is taken apart and judged like the first URL.  Nothing of this machine goes along:
no proxy settings, no `.netrc`, no cookies, no trace context.  Sizes are counted after decompression.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import httpcore

from herma.common.errors import InvalidArgument
from herma.common.guarded_http.addresses import AddressPolicy
from herma.common.guarded_http.body import body_of
from herma.common.guarded_http.credential import Credential
from herma.common.guarded_http.failures import PeerTimeout, peer_failures
from herma.common.guarded_http.headers import check_headers
from herma.common.guarded_http.hop_record import HopRecords
from herma.common.guarded_http.network import GuardedNetwork
from herma.common.guarded_http.resolver import Resolver, SystemResolver
from herma.common.guarded_http.shares import Shares
from herma.common.guarded_http.step import Step
from herma.common.guarded_http.target import UrlRefused, parse_target
from herma.common.logs import logger

# CONNECT is no request to a resource, and TRACE answers with the credentials that it got.
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_USER_AGENT: Final = "Herma"
_MOST_CONNECTIONS: Final = 100
_MOST_PER_HOLDER: Final = 16

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer that is being read.  `headers` have lower-case names; several are joined by commas."""

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
        policy: Which addresses and ports may be reached.
        resolver: Looks names up.
        tls: Which authorities are trusted; certificates are always verified.
        plain_anywhere: Also http, not only https, to public addresses.
        most_per_holder: Requests at a time of one holder.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        plain_anywhere: bool = False,
        most_per_holder: int = _MOST_PER_HOLDER,
    ) -> None:
        resolver = resolver or SystemResolver()
        context = tls or ssl.create_default_context()
        if context.verify_mode is not ssl.CERT_REQUIRED or not context.check_hostname:
            raise ValueError("certificates are always verified")
        self._policy = policy
        self._records = HopRecords()
        self._shares = Shares(most_per_holder)
        self._pools = {
            scheme: httpcore.AsyncConnectionPool(
                ssl_context=context,
                max_connections=_MOST_CONNECTIONS,
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
        silence: float | None = None,
        max_bytes: int = 1024 * 1024,
        redirects: int = 0,
        holder: str = "",
    ) -> Reply:
        """Makes one request and reads the answer.

        Args:
            headers: Besides those of every request; few follow a redirect to another origin.
            timeout: Seconds for all of it, redirects included.
            silence: Seconds that the other side may send, or take, nothing.
            max_bytes: Of the answer's body, decompressed.
            redirects: How many are followed; the one beyond is answered as it is.
            holder: For whom it is (a tenant): nobody gets all of the connections.  The host if empty.

        Raises:
            UrlRefused: when the URL, or one that it redirects to, may not be reached.
            PeerUnreachable, PeerTimeout, PeerUntrusted: when there is no answer.
            ReplyTooLarge, ReplyUnusable: for an answer that is not taken.
            InvalidArgument: for a method or headers that cannot be sent.
        """
        reading_of = self.reading(
            method,
            url,
            headers=headers,
            body=body,
            credential=credential,
            timeout=timeout,
            silence=silence,
            max_bytes=max_bytes,
            redirects=redirects,
            holder=holder,
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
        silence: float | None = None,
        max_bytes: int = 1024 * 1024,
        redirects: int = 0,
        holder: str = "",
    ) -> AsyncIterator[Reading]:
        """As `request`, with the body still to be read; the time runs until the block ends."""
        step = _first_step(method, url, headers or {}, body)
        allowance = silence or timeout
        try:
            async with (
                asyncio.timeout(timeout) as deadline,
                self._shares.of(holder or step.target.origin.host),
            ):
                while True:
                    async with self._hop(step, credential, allowance, deadline) as response:
                        onward = _onward(step, response) if redirects else None
                        if onward is None:
                            encoding = ", ".join(_values(response, b"content-encoding"))
                            chunks = body_of(response, encoding.strip().lower(), max_bytes)
                            async with aclosing(chunks):
                                yield Reading(response.status, _named(response), step.target.url, chunks)
                            return
                    redirects -= 1
                    step = onward
        except TimeoutError as error:
            # Else it is one of whoever reads.
            if deadline.expired():
                raise PeerTimeout from error
            raise

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
        self, step: Step, credential: Credential | None, silence: float, deadline: asyncio.Timeout
    ) -> AsyncIterator[httpcore.Response]:
        origin = step.target.origin
        with self._records.of(step, deadline) as hop:
            if not self._policy.allows_port(origin.port):
                _log.warning("a port was refused", host=origin.host, port=origin.port)
                raise UrlRefused("the URL's port cannot be reached from here")
            async with AsyncExitStack() as stack:
                with peer_failures():
                    response = await stack.enter_async_context(
                        self._pools[origin.scheme].stream(
                            step.method,
                            # In its parts: nobody takes the URL apart a second time.
                            httpcore.URL(
                                scheme=origin.scheme,
                                host=origin.host,
                                port=origin.port,
                                target=step.target.path,
                            ),
                            headers=_sent(step, credential),
                            # An empty body is announced where one is expected.
                            content=step.body
                            if step.body or step.method in ("POST", "PUT", "PATCH")
                            else None,
                            extensions={
                                "timeout": {"read": silence, "write": silence, "connect": silence}
                            },
                        )
                    )
                hop.status = response.status
                yield response


def _first_step(method: str, url: str, headers: Mapping[str, str], body: bytes) -> Step:
    if method not in _METHODS:
        raise InvalidArgument("this method cannot be used")
    given = check_headers(headers)
    try:
        target = parse_target(url)
    except UrlRefused as refused:
        # The URL itself may hold a secret.
        _log.warning("a URL was refused", why=refused.message)
        raise
    return Step(0, method, target, given, body)


def _onward(step: Step, response: httpcore.Response) -> Step | None:
    try:
        return step.after(response.status, _values(response, b"location"))
    except UrlRefused as refused:
        _log.warning("a redirect was refused", host=step.target.origin.host, why=refused.message)
        raise


def _sent(step: Step, credential: Credential | None) -> Sequence[tuple[str, str]]:
    sent = {"host": step.target.origin.authority, "user-agent": _USER_AGENT, "accept-encoding": "gzip"}
    sent.update(step.headers)
    if credential is not None and credential.origin == step.target.origin:
        sent[credential.header.lower()] = credential.value
    return list(sent.items())


def _values(response: httpcore.Response, name: bytes) -> Sequence[str]:
    return [value.decode("latin-1") for key, value in response.headers if key.lower() == name]


def _named(response: httpcore.Response) -> Mapping[str, str]:
    named: dict[str, str] = {}
    for key, value in response.headers:
        name, text = key.decode("latin-1").lower(), value.decode("latin-1")
        # RFC 9110 §5.3.
        named[name] = f"{named[name]}, {text}" if name in named else text
    return named
