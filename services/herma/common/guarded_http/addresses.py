"""Which addresses may be reached.

Sources: the special-purpose registries of RFC 6890 as Python's `ipaddress` has them, RFC 6052 (NAT64),
RFC 3056 (6to4), RFC 4380 (Teredo), RFC 6598 (shared address space).

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
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",  # site-local, deprecated
    )
)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.ip_network("::/96")
# IPv4-translated (RFC 2765).
_TRANSLATED: Final = ipaddress.ip_network("::ffff:0:0:0/96")


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Public addresses, and what the operator allows besides.

    Attributes:
        allowed: Networks that may be reached although they are not public.
    """

    allowed: Sequence[Network] = ()

    def allows(self, address: Address) -> bool:
        """Whether an address may be reached."""
        return self.vouches_for(address) or all(_is_public(one) for one in _meanings(address))

    def vouches_for(self, address: Address) -> bool:
        """Whether the operator named the address's network."""
        plain = address
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            plain = address.ipv4_mapped
        return any(plain.version == network.version and plain in network for network in self.allowed)


def _is_public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address.version == network.version and address in network for network in _INTERNAL)
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
