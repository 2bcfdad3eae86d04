"""Gives out ports of the loopback address.

Invariant: two platforms of one machine never get the same port, and no client's connection takes one
between its choice and its use.  So ports lie outside the range that the kernel gives to clients, and each
is held by the name of an abstract unix socket: the kernel knows it in the same network namespace as the
port, and forgets it when its holder dies.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from pathlib import Path

from herma.common.errors import Unavailable

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_WANTED = 8_192
_LOWEST = 10_240
_TRIES = 2_000


class Ports:
    """Ports that are held until `close`, or until this process dies.

    Args:
        candidates: To choose from; by default those that the kernel gives to no client.
    """

    def __init__(self, candidates: Sequence[int] | None = None) -> None:
        self._candidates = candidates or _outside(*_client_range())
        self._holds: list[socket.socket] = []

    def take(self) -> int:
        """A port that nobody listens on and no other holder has.

        Raises:
            Unavailable: when none is to be found.
        """
        for _ in range(_TRIES):
            port = random.choice(self._candidates)  # noqa: S311  # spreads, hides nothing
            hold = _hold(port)
            if hold is None:
                continue
            if is_free(port):
                self._holds.append(hold)
                return port
            hold.close()
        raise Unavailable("this machine has no free port left")

    def close(self) -> None:
        """Lets others have them."""
        for hold in self._holds:
            hold.close()
        self._holds.clear()


def is_free(port: int) -> bool:
    """Whether a port of the loopback address can be listened on now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _hold(port: int) -> socket.socket | None:
    hold = socket.socket(socket.AF_UNIX)
    try:
        hold.bind(f"\0herma-port-{port}")
    except OSError:
        hold.close()
        return None
    return hold


def _client_range() -> tuple[int, int]:
    try:
        low, high = _RANGE.read_text().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 32_768, 60_999


def _outside(low: int, high: int) -> range:
    """Ports that clients do not get: below their range, else above it, else (they have all) any."""
    if low - _LOWEST >= _WANTED // 4:
        return range(max(_LOWEST, low - _WANTED), low)
    if 65_536 - high >= _WANTED // 4:
        return range(high + 1, 65_536)
    return range(_LOWEST, 65_536)
