"""A command's output: a bounded window of head and tail, the whole of it in a spill file if longer."""

from __future__ import annotations

import os
from collections.abc import Callable

_HEAD_SHARE = 0.4
# A spill file never grows beyond this.
MAX_SPILL = 64 * 1024 * 1024


class OutputWindow:
    """Keeps 40 % head and 60 % tail of at most `limit` bytes.

    Args:
        limit: Bytes kept.
        open_spill: Opens the spill file; answers its descriptor and path.  Called once, when the
            output outgrows the limit; OSError means that there is no spill file.
    """

    def __init__(self, limit: int, open_spill: Callable[[], tuple[int, bytes]]) -> None:
        self._limit = limit
        self._head_size = int(limit * _HEAD_SHARE)
        self._open_spill = open_spill
        self._kept = bytearray()
        self._tail = bytearray()
        self._spill: int | None = None
        self._spilled = 0
        self.spill_path = b""
        self.total = 0

    @property
    def head(self) -> bytes:
        """The start of the output; all of it when `tail` is empty and nothing is missing."""
        return bytes(self._kept)

    @property
    def tail(self) -> bytes:
        """The end of the output, when there is a gap."""
        return bytes(self._tail[-(self._limit - self._head_size) :])

    def add(self, data: bytes) -> None:
        """Takes what was read."""
        outgrown = self.total > self._limit
        self.total += len(data)
        if self.total <= self._limit:
            self._kept += data
            return
        if not outgrown:
            self._kept += data
            self._start_spill()
            self._tail = self._kept[self._head_size :]
            del self._kept[self._head_size :]
        else:
            self._write(data)
            self._tail += data
        if len(self._tail) > 4 * self._limit:
            del self._tail[: -self._limit]

    def close(self) -> None:
        """Closes the spill file."""
        if self._spill is not None:
            os.close(self._spill)
            self._spill = None

    def _start_spill(self) -> None:
        try:
            self._spill, self.spill_path = self._open_spill()
        except OSError:
            return
        self._write(bytes(self._kept))

    def _write(self, data: bytes) -> None:
        if self._spill is None:
            return
        view = memoryview(data)[: MAX_SPILL - self._spilled]
        try:
            while view:
                written = os.write(self._spill, view)
                self._spilled += written
                view = view[written:]
        except OSError:  # a full disk must not end the command's bookkeeping
            self.close()
            # The file lacks some of the output, which nobody could tell.
            self.spill_path = b""
