"""The reading end of a command's output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

_CHUNK = 65_536


async def read_all(descriptor: int, hear: Callable[[bytes], None]) -> None:
    """Passes on all that comes through a pipe, and closes it at its end or when cancelled."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                readable.clear()
                await readable.wait()
                continue
            if not data:
                return
            hear(data)
            await asyncio.sleep(0)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
