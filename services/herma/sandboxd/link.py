"""The way out: sandboxd dials tool-sandbox's socket, and RPC runs back over that connection.

Nothing outside ever opens a path that this sandbox can write.  The bytes of one connection are passed
between the socket outside and the gRPC server in here; when the connection drops, it is dialled again
for ever, so sandboxd outlives a restart of tool-sandbox.
"""

from __future__ import annotations

import asyncio
import random

_FIRST_PAUSE = 0.02
_MAX_PAUSE = 0.5
_CHUNK = 256 * 1024


async def keep_linked(outside: str, inside: str) -> None:
    """Links the socket `outside` to the server on the socket `inside`, until cancelled.

    Args:
        outside: Path.
        inside: Path, or an abstract name that starts with a NUL.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            remote = await asyncio.open_unix_connection(outside, limit=_CHUNK)
        except OSError:
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311  # jitter
            pause = min(pause * 2, _MAX_PAUSE)
            continue
        pause = _FIRST_PAUSE
        try:
            local = await asyncio.open_unix_connection(inside, limit=_CHUNK)
            await splice(remote, local)
        except OSError:
            pass
        finally:
            remote[1].close()
        await asyncio.sleep(_FIRST_PAUSE)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def splice(one: Streams, other: Streams) -> None:
    """Passes bytes both ways until either side ends.

    tool-sandbox has its like: what runs in a sandbox imports nothing of the platform's.
    """
    tasks = [
        asyncio.ensure_future(_pump(one[0], other[1])),
        asyncio.ensure_future(_pump(other[0], one[1])),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        one[1].close()
        other[1].close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
