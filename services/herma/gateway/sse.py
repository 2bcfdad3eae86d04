"""A session's events as server-sent events (WHATWG HTML, "Server-sent events").

Numbered events carry `id:`; streamed text does not.  When session-authority goes away, the stream goes
on from the last number by itself, so a client notices nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.common.errors import DeadlineExceeded, HermaError, Kind, Unavailable
from herma.gateway.authority import Authority

_HEARTBEAT_SECONDS = 15.0
_BACKOFF = 0.2


class EventStream:
    """One client's stream.

    Args:
        recheck: Raises when the client's rights are gone.
        stopping: Set when the gateway stops: streams end, clients reconnect elsewhere.
    """

    def __init__(
        self,
        authority: Authority,
        caller: ledger_pb2.Caller,
        session_id: str,
        turn_id: str,
        recheck: Callable[[], Awaitable[object]],
        stopping: asyncio.Event,
    ) -> None:
        self._authority = authority
        self._caller = caller
        self._session_id = session_id
        self._turn_id = turn_id
        self._recheck = recheck
        self._stopping = stopping

    async def open(self, after: int) -> AsyncIterator[bytes]:
        """Starts the stream, so that a refusal is still a plain HTTP error.

        Raises:
            HermaError: when the session is not the caller's, or the cursor is out of range.
        """
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(1000)
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reader = asyncio.ensure_future(self._read(after, queue, opened))
        try:
            await asyncio.wait([reader, opened], return_when=asyncio.FIRST_COMPLETED, timeout=0.15)
            if reader.done():
                reader.result()
        except BaseException:
            reader.cancel()
            raise
        return self._write(queue, reader)

    async def _write(
        self, queue: asyncio.Queue[bytes | None], reader: asyncio.Future[None]
    ) -> AsyncIterator[bytes]:
        checked = time.monotonic()
        yield b": herma\n\n"
        try:
            while not self._stopping.is_set():
                try:
                    async with asyncio.timeout(min(_HEARTBEAT_SECONDS, 1.0)):
                        item = await queue.get()
                except TimeoutError:
                    item = b""
                if item is None:
                    return
                if item:
                    yield item
                elif time.monotonic() - checked > _HEARTBEAT_SECONDS:
                    yield b": still here\n\n"
                if time.monotonic() - checked > _HEARTBEAT_SECONDS:
                    checked = time.monotonic()
                    try:
                        await self._recheck()
                    except HermaError as error:
                        if error.kind is not Kind.UNAVAILABLE:
                            return
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(
        self, after: int, queue: asyncio.Queue[bytes | None], opened: asyncio.Future[None]
    ) -> None:
        while True:
            try:
                async for item in self._authority.subscribe(
                    self._caller, self._session_id, after, self._turn_id
                ):
                    if not opened.done():
                        opened.set_result(None)
                    if item.HasField("event"):
                        after = item.event.seq
                    await queue.put(_frame(item))
                # The authority ends a stream only after the asked turn; else it is stopping.
                if self._turn_id:
                    await queue.put(None)
                    return
            except (Unavailable, DeadlineExceeded):
                pass
            except HermaError as error:
                if error.kind in (Kind.CANCELLED, Kind.INTERNAL):
                    pass
                else:
                    await queue.put(None)
                    raise
            await asyncio.sleep(_BACKOFF)


def _frame(item: session_pb2.SubscribeResponse) -> bytes:
    if item.HasField("delta"):
        delta = item.delta
        data = {
            "message_id": delta.message_id,
            "turn_id": delta.turn_id,
            "attempt": delta.attempt,
            "offset": delta.offset,
            "text": delta.text,
        }
        return f"event: message.delta\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
    event = item.event
    at = event.at.ToDatetime(UTC).isoformat().replace("+00:00", "Z")
    data = {
        "seq": event.seq,
        "kind": event.kind,
        "turn_id": event.turn_id,
        "at": at,
        **json.loads(event.data),
    }
    text = json.dumps(data, ensure_ascii=False)
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {text}\n\n".encode()
