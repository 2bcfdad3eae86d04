"""A resolver with answers of its own, and policies that allow what tests need."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from herma.common.guarded_http import AddressPolicy
from herma.common.guarded_http.addresses import Address

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
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [
            ipaddress.ip_address(text) for text in (given.pop(0) if len(given) > 1 else given[0]).split()
        ]
