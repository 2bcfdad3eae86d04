"""A TCP proxy on loopback that misbehaves on demand: cut, silent, slow or absent.

It runs in a thread with a loop of its own, so that one proxy outlives the loops of single tests; its
methods may be called from any thread and return when they have taken effect.

Invariant: bytes are neither changed nor reordered; what was held back by `pause` comes after `resume`.
What connected before `refuse` is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

Direction = Literal["both", "up", "down"]
_Result = TypeVar("_Result")
_RST = struct.pack("ii", 1, 0)


class FaultProxy:
    """Stands between clients and `target` (`host:port`); use it as a context manager.

    Attributes:
        latency: Seconds that every piece waits, in each direction.
        accepted: How many connections there have been.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("http://").rpartition(":")
        self._target = (host.strip("[]"), int(port))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="fault-proxy")
        self._listener: socket.socket | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._links: set[_Link] = set()
        self._open = {"up": asyncio.Event(), "down": asyncio.Event()}
        self._port = 0
        self.latency = 0.0
        self.accepted = 0

    @property
    def address(self) -> str:
        """Where clients connect, `host:port`; the same for the proxy's whole life."""
        return f"127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._links)

    def cut_all(self) -> int:
        """Resets every connection on both sides; how many there were."""

        async def cut() -> int:
            links = list(self._links)
            for link in links:
                link.reset()
            await asyncio.gather(*(link.task for link in links), return_exceptions=True)
            return len(links)

        return self._run(cut())

    def pause(self, direction: Direction = "both") -> None:
        """Forwards nothing more (`up` is towards the target); connections stay open, new ones come."""
        self._run(self._set(direction, asyncio.Event.clear))

    def resume(self, direction: Direction = "both") -> None:
        """Forwards again, also what was held back."""
        self._run(self._set(direction, asyncio.Event.set))

    def refuse(self, refused: bool = True) -> None:
        """Stops listening, so that new connections are refused; False to listen again."""
        self._run(self._unlisten() if refused else self._listen())

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self.resume()
        self._run(self._listen())
        return self

    def __exit__(self, *_exception: object) -> None:
        self._run(self._unlisten())
        self.cut_all()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _set(self, direction: Direction, change: Callable[[asyncio.Event], None]) -> None:
        for name, event in self._open.items():
            if direction in (name, "both"):
                change(event)

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self._port), backlog=512)
            self._listener.setblocking(False)
            self._port = self._listener.getsockname()[1]
            self._loop.add_reader(self._listener, self._accept, self._listener)

    async def _unlisten(self) -> None:
        if self._listener is not None:
            self._accept(self._listener)
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        # Not `asyncio.start_server`: closed while it accepts, it leaves that client hanging.
        with contextlib.suppress(BlockingIOError):
            while True:
                taken, _ = listener.accept()
                taken.setblocking(False)
                self._serving.add(task := self._loop.create_task(self._serve(taken)))
                task.add_done_callback(self._serving.discard)

    async def _serve(self, taken: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=taken)
        self.accepted += 1
        link = _Link(asyncio.current_task(), [writer])
        self._links.add(link)
        try:
            theirs, ours = await asyncio.open_connection(*self._target)
            link.writers.append(ours)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, ours, "up"))
                group.create_task(self._forward(theirs, writer, "down"))
        except* (OSError, asyncio.CancelledError):
            link.reset_writers()
        finally:
            self._links.discard(link)
            for each in link.writers:
                each.close()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str
    ) -> None:
        while data := await reader.read(65_536):
            if self.latency:
                await asyncio.sleep(self.latency)
            await self._open[direction].wait()
            writer.write(data)
            await writer.drain()
        await self._open[direction].wait()
        with contextlib.suppress(OSError):
            writer.write_eof()


class _Link:
    """One client's connection and the one made for it."""

    def __init__(self, task: asyncio.Task[Any] | None, writers: list[asyncio.StreamWriter]) -> None:
        assert task is not None
        self.task = task
        self.writers = writers

    def reset(self) -> None:
        self.reset_writers()
        self.task.cancel()

    def reset_writers(self) -> None:
        for writer in self.writers:
            with contextlib.suppress(OSError):
                taken = writer.get_extra_info("socket")
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
            writer.transport.abort()
