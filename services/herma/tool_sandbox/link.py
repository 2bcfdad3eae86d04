"""The connection of one sandbox: its sandboxd dials in, and RPC runs back.

tool-sandbox listens on a socket in a folder that only this sandbox sees, and that it cannot write.  Of
all who dial, only the sandbox's first process is let in (`SO_PEERCRED`: host pid and user), once.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from pathlib import Path

import grpc

from herma.common.errors import SandboxUnavailable
from herma.common.logs import logger

_log = logger(__name__)

_CHUNK = 256 * 1024
_MAX_MESSAGE = 8 * 1024 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class DialTimeout(SandboxUnavailable):
    """The sandbox did not dial in time."""


class SandboxLink:
    """Listens for one sandbox and gives a gRPC channel over what dialled in.

    Args:
        folder: The sandbox's own folder, mounted read-only into it.
        private: Folder of this process alone, for the near end of the channel.
    """

    def __init__(self, folder: Path, private: Path) -> None:
        self._outer_path = folder / "sandboxd.sock"
        self._inner_path = private / f"{folder.name}.sock"
        self._expected: tuple[int, int] | None = None
        self._dialled: asyncio.Future[Streams] | None = None
        self._servers: list[asyncio.Server] = []
        self._channel: grpc.aio.Channel | None = None
        self._splices: set[asyncio.Task[None]] = set()
        self.broken = asyncio.Event()

    async def open(self) -> None:
        """Starts listening."""
        self._dialled = asyncio.get_running_loop().create_future()
        folder = self._outer_path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        folder.chmod(0o755)
        for path in (self._outer_path, self._inner_path):
            path.unlink(missing_ok=True)
        self._servers = [
            await asyncio.start_unix_server(self._on_dial, self._outer_path, limit=_CHUNK),
            await asyncio.start_unix_server(self._on_near_end, self._inner_path, limit=_CHUNK),
        ]
        # Whoever is in the container may dial; who is let in is decided by credentials.
        self._outer_path.chmod(0o666)
        self._inner_path.chmod(0o600)

    async def channel(self, pid: int, uid: int, timeout: float) -> grpc.aio.Channel:
        """A channel to the sandboxd with this host pid and user.

        Raises:
            DialTimeout: when it does not dial in time.
        """
        if self._channel is not None:
            return self._channel
        self._expected = (pid, uid)
        assert self._dialled is not None
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._dialled)
        except TimeoutError as error:
            raise DialTimeout("the sandbox did not come up", retry_after=1) from error
        self._channel = grpc.aio.insecure_channel(
            f"unix:{self._inner_path}",
            options=(
                ("grpc.max_receive_message_length", _MAX_MESSAGE),
                ("grpc.max_send_message_length", _MAX_MESSAGE),
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_retries", 0),
                ("grpc.initial_reconnect_backoff_ms", 50),
                ("grpc.max_reconnect_backoff_ms", 200),
            ),
        )
        return self._channel

    async def close(self) -> None:
        """Stops listening and drops the connection."""
        self.broken.set()
        for server in self._servers:
            server.close()
        if self._channel is not None:
            await self._channel.close(None)
        for task in list(self._splices):
            task.cancel()
        await asyncio.gather(*self._splices, return_exceptions=True)
        if self._dialled is not None and self._dialled.done() and not self._dialled.cancelled():
            self._dialled.result()[1].close()
        for path in (self._outer_path, self._inner_path):
            path.unlink(missing_ok=True)

    async def _on_dial(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._dialled is not None
        if self._dialled.done() or not _is_peer(writer, self._expected):
            # Not expected yet, a second one, or not the sandbox's first process: it may dial again.
            writer.close()
            return
        self._dialled.set_result((reader, writer))

    async def _on_near_end(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.broken.is_set() or self._splices or self._dialled is None:
            writer.close()
            return
        far = self._dialled.result()
        task = asyncio.ensure_future(_splice(far, (reader, writer)))
        self._splices.add(task)
        task.add_done_callback(lambda _task: self.broken.set())
        await asyncio.wait([task])


def _is_peer(writer: asyncio.StreamWriter, expected: tuple[int, int] | None) -> bool:
    if expected is None:
        return False
    raw = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    pid, uid, _gid = struct.unpack("3i", raw)
    if (pid, uid) == expected:
        return True
    _log.warning("a stranger dialled a sandbox's socket", pid=pid, uid=uid)
    return False


async def _splice(one: Streams, other: Streams) -> None:
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
        for _, writer in (one, other):
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


def make_private(path: Path) -> None:
    """A folder that no other user may enter."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(path, 0o700)  # noqa: PTH101  # also when it was there
