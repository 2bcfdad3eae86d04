"""How the guarded client reaches a host: resolved once, all answers judged, connected as judged.

Invariant: between the judgement of an address and the connection to it lies no second look-up.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore

from herma.common.guarded_http.addresses import Address, AddressPolicy, unmapped
from herma.common.guarded_http.failures import PeerTimeout, PeerUnreachable
from herma.common.guarded_http.resolver import Resolver
from herma.common.guarded_http.target import UrlRefused
from herma.common.logs import logger

# Until the next address is tried.
_CONNECT_SECONDS = 5.0
_MOST_ADDRESSES = 16

_log = logger(__name__)


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
            PeerUnreachable: when none answers, or the name cannot be looked up now.
            PeerTimeout: when the name, or the last of its addresses, takes too long.
        """
        failure: Exception | None = None
        for address in (await self._judged(host))[:_MOST_ADDRESSES]:
            try:
                stream = await self._sockets.connect_tcp(
                    str(address),
                    port,
                    min(timeout or _CONNECT_SECONDS, _CONNECT_SECONDS),
                    local_address,
                    socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout, OSError) as error:
                failure = error
                continue
            await _check_peer(stream, address)
            return stream
        if isinstance(failure, httpcore.ConnectTimeout):
            raise PeerTimeout from failure
        raise PeerUnreachable from failure

    async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Refuses."""
        raise UrlRefused("sockets of this machine cannot be reached")

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    async def _judged(self, host: str) -> Sequence[Address]:
        found = list(dict.fromkeys(unmapped(address) for address in await self._found(host)))
        refused = [str(address) for address in found if not self._may(address)]
        if refused or not found:
            _log.warning("a host was refused", host=host, addresses=refused[:_MOST_ADDRESSES])
            raise self._refusal()
        return found

    async def _found(self, host: str) -> Sequence[Address]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            pass
        try:
            return await self._resolver.addresses(host)
        except socket.gaierror as error:
            if error.errno == socket.EAI_AGAIN:
                raise PeerUnreachable from error
            _log.info("a host does not resolve", host=host)
            raise self._refusal() from error
        except TimeoutError as error:
            raise PeerTimeout from error
        except (OSError, UnicodeError) as error:
            _log.info("a host does not resolve", host=host)
            raise self._refusal() from error

    def _may(self, address: Address) -> bool:
        if self._policy.vouches_for(address):
            return True
        return not self._needs_voucher and self._policy.allows(address) and not _is_own(address)

    def _refusal(self) -> UrlRefused:
        # The same words whatever the name resolves to, and whether it does.
        if self._needs_voucher:
            return UrlRefused("this URL cannot be reached from here; it must begin with https://")
        return UrlRefused()


def _is_own(address: Address) -> bool:
    """Whether the address is one of this machine: what listens there may be hidden by a firewall.

    The kernel sends to its own addresses from the very same.  To connect a datagram socket sends nothing.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
        except OSError:
            # No way there: the connection will say so.
            return False
        return ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0]) == address


async def _check_peer(stream: httpcore.AsyncNetworkStream, address: Address) -> None:
    peer = stream.get_extra_info("server_addr")
    if peer is None or ipaddress.ip_address(str(peer[0]).partition("%")[0]) != address:
        await stream.aclose()
        raise UrlRefused
