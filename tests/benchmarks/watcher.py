"""A client that has subscribed beforehand and notes when each event reached it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True, slots=True)
class Seen:
    """One event, and when its last byte was read (monotonic and Unix nanoseconds)."""

    event: str
    data: dict[str, Any]
    at: int
    unix: int


class Watcher:
    """Follows one session; use it as an async context manager.

    It is connected when the block begins: the server has said its first words.
    """

    def __init__(self, http: httpx.AsyncClient, session_id: str) -> None:
        self._http = http
        self._url = f"/v1/sessions/{session_id}/events"
        self._seen: asyncio.Queue[Seen] = asyncio.Queue()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Watcher:
        self._task = asyncio.create_task(self._follow())
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait([self._task, ready], return_when=asyncio.FIRST_COMPLETED, timeout=30)
        ready.cancel()
        if self._task.done():
            self._task.result()
        assert self._ready.is_set(), "the event stream did not open"
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, kind: str, timeout: float = 60.0) -> list[Seen]:
        """What came since the last time, up to and with the next event of a kind."""
        found: list[Seen] = []
        async with asyncio.timeout(timeout):
            while True:
                found.append(await self._seen.get())
                if found[-1].event == kind:
                    return found

    async def _follow(self) -> None:
        rest = b""
        async with self._http.stream("GET", self._url) as response:
            assert response.status_code == 200, (await response.aread()).decode()
            async for part in response.aiter_raw():
                at, unix = time.monotonic_ns(), time.time_ns()
                self._ready.set()
                *frames, rest = (rest + part).split(b"\n\n")
                for frame in frames:
                    seen = _seen(frame, at, unix)
                    if seen is not None:
                        self._seen.put_nowait(seen)


def _seen(frame: bytes, at: int, unix: int) -> Seen | None:
    fields = dict(line.partition(b": ")[::2] for line in frame.split(b"\n"))
    if b"data" not in fields:
        return None
    return Seen(fields[b"event"].decode(), json.loads(fields[b"data"]), at, unix)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keeps the benchmark's own collector from adding its pauses to what it measures."""
    import gc

    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
