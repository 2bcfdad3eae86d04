"""Which addresses and ports may be reached.

Sources: the special-purpose registries of RFC 6890 as Python's `ipaddress` has them, RFC 6052 (NAT64),
RFC 7526 (6to4 is over), RFC 4380 (Teredo), RFC 5214 (ISATAP), RFC 6598 (shared address space).

Invariant: an address is judged by where its packets would go, so an IPv6 address that carries an IPv4
address is judged as both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Not public, whether or not this Python's registries say so already, and what is global by the registries
# and yet inside of somebody's network.
_INTERNAL: Final[Sequence[Network]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carriers' shared space
        "168.63.129.16/32",  # Azure's host
        "192.0.0.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",
        "240.0.0.0/4",
        "100::/64",
        "64:ff9b:1::/48",  # NAT64 of one network
        "2001::/23",  # IETF protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: whose relay would carry it, nobody knows
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",  # site-local, deprecated
    )
)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.ip_network("::/96")
# IPv4-translated (RFC 2765).
_TRANSLATED: Final = ipaddress.ip_network("::ffff:0:0:0/96")
# The first half of an interface identifier whose second half is an IPv4 address.
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})

PORTS: Final[Sequence[range]] = (range(80, 81), range(443, 444), range(1024, 65536))
"""HTTP's own, and those where no service of old may take a request for its own protocol."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Public addresses, and what the operator adds or takes away.

    Attributes:
        allowed: Networks that may be reached although they are not public.
        denied: Networks that may not be reached although they are public, or allowed.
        ports: Ports that may be reached.
    """

    allowed: Sequence[Network] = ()
    denied: Sequence[Network] = ()
    ports: Sequence[range] = PORTS

    def allows(self, address: Address) -> bool:
        """Whether an address may be reached."""
        if self._is_denied(address):
            return False
        return self.vouches_for(address) or all(
            _is_public(one) or _is_in(self.allowed, one) for one in _meanings(address)
        )

    def vouches_for(self, address: Address) -> bool:
        """Whether the operator named the address's network, and did not deny it."""
        return _is_in(self.allowed, unmapped(address)) and not self._is_denied(address)

    def allows_port(self, port: int) -> bool:
        """Whether a port may be reached."""
        return any(port in ports for ports in self.ports)

    def _is_denied(self, address: Address) -> bool:
        return _is_in(self.denied, address) or any(_is_in(self.denied, one) for one in _meanings(address))


def unmapped(address: Address) -> Address:
    """The IPv4 address that is meant by one that is only written as IPv6 (`::ffff:…`)."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _is_in(networks: Sequence[Network], address: Address) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _is_public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not _is_in(_INTERNAL, address)
    )


def _meanings(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 addresses that it may lead to."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    carried = list(_carried(address))
    # One that only wraps IPv4 goes where that goes: its own prefix is in no registry as global.
    if address.ipv4_mapped is None and address not in _NAT64:
        yield address
    yield from carried


def _carried(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address in _NAT64 or address in _TRANSLATED or (address in _COMPATIBLE and int(address) > 1):
        yield low
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        yield low
