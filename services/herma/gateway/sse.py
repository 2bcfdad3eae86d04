"""Server-sent events (WHATWG HTML, "Server-sent events"), and a session's stream in that form.

Numbered events carry `id:`; streamed text does not.  When session-authority goes away, the stream goes
on from the last number by itself, so a client notices nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from datetime import UTC
from typing import Any, Final

from fastapi import Response

from herma.api.session.v1 import session_pb2
from herma.common.errors import HermaError
from herma.common.logs import logger
from herma.gateway.attendance import Departure, Receive, attend
from herma.gateway.pace import Pace

MEDIA_TYPE: Final = "text/event-stream"

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "Content-Type": MEDIA_TYPE,
}

_log = logger(__name__)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class EventStream(Response):
    """One client's stream, as the response that serves it.

    Args:
        frames: What to send; closed when the stream ends.
        recheck: Raises `Unauthenticated` or `PermissionDenied` when the client's rights are gone.
        stopping: Set when the gateway stops: streams end, clients reconnect elsewhere.
        headers: Besides those of every stream.
        farewell: What to send last, by who ended the stream.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        frames: AsyncIterator[bytes],
        *,
        recheck: Callable[[], Awaitable[object]],
        stopping: asyncio.Event,
        pace: Pace,
        headers: Mapping[str, str] | None = None,
        farewell: Callable[[Departure], bytes] = lambda departure: b"",
    ) -> None:
        super().__init__(headers={**_HEADERS, **(headers or {})})
        # A stream has no length.
        del self.headers["content-length"]
        self._frames = frames
        self._recheck = recheck
        self._stopping = stopping
        self._pace = pace
        self._farewell = farewell

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serves until the first of its parties ends."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        await _write(send, b": herma\n\n")
        last = b""
        try:
            departure = await attend(
                self._serve(send),
                receive,
                recheck=self._recheck,
                stopping=self._stopping,
                pace=self._pace,
            )
            last = self._farewell(departure)
        except HermaError as error:
            _log.warning("a stream was refused", reason=error.reason)
        except Exception as error:  # noqa: BLE001  # the answer has begun: it can only end
            _log.error("an event stream broke", exc_info=error)
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _serve(self, send: Send) -> None:
        beating = asyncio.ensure_future(self._beat(send))
        try:
            async with aclosing(self._frames) as frames:  # type: ignore[type-var]  # a generator
                async for data in frames:
                    await _write(send, data)
        finally:
            beating.cancel()

    async def _beat(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._pace.heartbeat)
            await _write(send, b": still here\n\n")


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def event_frames(items: AsyncIterator[session_pb2.SubscribeResponse]) -> AsyncIterator[bytes]:
    """A subscription as it goes over the wire."""
    async with aclosing(items) as followed:  # type: ignore[type-var]  # a generator
        async for item in followed:
            yield frame(item)


def frame(item: session_pb2.SubscribeResponse) -> bytes:
    """One event or piece of text as it goes over the wire."""
    if item.HasField("delta"):
        delta = item.delta
        return _framed(
            "event: message.delta\n",
            {
                "message_id": delta.message_id,
                "turn_id": delta.turn_id,
                "attempt": delta.attempt,
                "offset": delta.offset,
                "text": delta.text,
            },
        )
    event = item.event
    return _framed(
        f"id: {event.seq}\nevent: {event.kind}\n",
        {
            **json.loads(event.data or b"{}"),
            "seq": event.seq,
            "kind": event.kind,
            "turn_id": event.turn_id,
            "at": event.at.ToDatetime(UTC).isoformat().replace("+00:00", "Z"),
        },
    )


# Characters that end a line for some clients' libraries, though not in server-sent events.
_SEPARATORS = {ord(char): f"\\u{ord(char):04x}" for char in "\u0085\u2028\u2029"}


def data_line(data: Mapping[str, object]) -> bytes:
    """A JSON object as an event's only line, with the empty line that ends the event."""
    # JSON escapes line ends, so the data is one line; half a character is escaped again as JSON does.
    text = json.dumps(data, ensure_ascii=False).translate(_SEPARATORS).encode("utf-8", "backslashreplace")
    return b"data: " + text + b"\n\n"


def _framed(head: str, data: Mapping[str, object]) -> bytes:
    return head.encode() + data_line(data)
