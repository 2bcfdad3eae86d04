"""Identifiers: UUIDv7, so that newer rows sort last and indexes stay dense."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from uuid import UUID

from herma.common.errors import InvalidArgument


class UuidV7Factory:
    """Makes UUIDv7 values (RFC 9562, section 5.7), strictly increasing within one process.

    The 12 bits after the version continue the millisecond (method 3 of section 6.2); should the clock
    stand still or step back, the next value follows the last one.
    """

    def __init__(
        self,
        now_ns: Callable[[], int] = time.time_ns,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._now_ns = now_ns
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> UUID:
        """A new id."""
        millis, rest = divmod(self._now_ns(), 1_000_000)
        stamp = (millis << 12) | (rest * 4096 // 1_000_000)
        with self._lock:
            stamp = max(stamp, self._last + 1)
            self._last = stamp
        value = (stamp >> 12) << 80
        value |= 0x7 << 76
        value |= (stamp & 0xFFF) << 64
        value |= 0b10 << 62
        value |= int.from_bytes(self._random_bytes(8), "big") & ((1 << 62) - 1)
        return UUID(int=value)


def parse_id(text: str, field: str) -> UUID:
    """Reads a canonical UUID.

    Raises:
        InvalidArgument: naming `field`, when the text is anything else.
    """
    value: UUID | None
    try:
        value = UUID(text)
    except ValueError:
        value = None
    if value is None or str(value) != text:
        raise InvalidArgument(f"{field} is not an id", fields={field: "must be a canonical UUID"})
    return value
