"""How the guarded client reaches a host: resolved once, all answers judged, connected as judged.

Invariant: between the judgement of an address and the connection to it lies no second look-up.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import httpcore

from herma.common.errors import Unavailable
from herma.common.guarded_http.addresses import Address, AddressPolicy
from herma.common.guarded_http.target import UrlRefused
from herma.common.logs import logger

_RESOLVE_SECONDS = 5.0
# Until the next address is tried.
_CONNECT_SECONDS = 5.0
_MOST_ADDRESSES = 16

_log = logger(__name__)


class PeerUnreachable(Unavailable):
    """The other side does not answer; try again."""

    reason = "URL_UNREACHABLE"


class Resolver(Protocol):
    """Looks names up."""

    async def addresses(self, host: str) -> Sequence[Address]:
        """All addresses of a name.

        Raises:
            OSError: when there is none, or nobody answers.
        """


class SystemResolver:
    """The machine's own."""

    async def addresses(self, host: str) -> Sequence[Address]:
        """As `Resolver.addresses`."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_RESOLVE_SECONDS):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        # A link-local answer may come with a zone; without it, it is judged all the same.
        return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to hosts whose addresses are allowed.

    Args:
        plain: Without TLS: only to addresses that the operator vouches for, unless `plain_anywhere`.
    """

    def __init__(
        self, policy: AddressPolicy, resolver: Resolver, *, plain: bool, plain_anywhere: bool = False
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._needs_voucher = plain and not plain_anywhere
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects to the first address of the host that answers.

        Raises:
            UrlRefused: when one of its addresses is not allowed, or the name does not resolve: what is
                inside is not told from what is not.
            PeerUnreachable: when none answers.
        """
        failure: Exception | None = None
        for address in await self._judged(host):
            try:
                stream = await self._sockets.connect_tcp(
                    str(address),
                    port,
                    timeout or _CONNECT_SECONDS,
                    local_address,
                    socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout, OSError) as error:
                failure = error
                continue
            await _check_peer(stream, address)
            return stream
        raise PeerUnreachable from failure

    async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Refuses."""
        raise UrlRefused("sockets of this machine cannot be reached")

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    async def _judged(self, host: str) -> Sequence[Address]:
        try:
            found: Sequence[Address] = [ipaddress.ip_address(host)]
        except ValueError:
            try:
                found = (await self._resolver.addresses(host))[:_MOST_ADDRESSES]
            except (OSError, UnicodeError) as error:
                _log.info("a host does not resolve", host=host)
                raise UrlRefused from error
        may = self._policy.vouches_for if self._needs_voucher else self._policy.allows
        refused = [str(address) for address in found if not may(address)]
        if refused or not found:
            _log.warning("a host was refused", host=host, addresses=refused)
            raise UrlRefused
        return list(dict.fromkeys(found))


async def _check_peer(stream: httpcore.AsyncNetworkStream, address: Address) -> None:
    peer = stream.get_extra_info("server_addr")
    if peer is None or ipaddress.ip_address(str(peer[0]).partition("%")[0]) != address:
        await stream.aclose()
        raise UrlRefused
