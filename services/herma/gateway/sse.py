"""A session's events as server-sent events (WHATWG HTML, "Server-sent events").

Numbered events carry `id:`; streamed text does not.  When session-authority goes away, the stream goes
on from the last number by itself, so a client notices nothing.  Nothing outlives the response: whoever
ends first (client, rights, gateway, the asked turn) ends the subscription too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from fastapi import Response

from herma.api.session.v1 import session_pb2
from herma.common.errors import HermaError, Kind
from herma.common.logs import logger

MEDIA_TYPE: Final = "text/event-stream"

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "Content-Type": MEDIA_TYPE,
}
# Failures after which the stream goes on; INTERNAL is what a transport cut in mid-message looks like.
_PASSING: Final = frozenset({Kind.UNAVAILABLE, Kind.DEADLINE, Kind.CANCELLED, Kind.INTERNAL})
_REVOKED: Final = frozenset({Kind.UNAUTHENTICATED, Kind.FORBIDDEN})

_log = logger(__name__)

Subscribe = Callable[[int], AsyncIterator[session_pb2.SubscribeResponse]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen on a stream, in seconds.

    `heartbeat`: a comment that keeps proxies from closing an idle stream.  `recheck`: the longest that a
    stream outlives its client's rights.  `backoff` to `backoff_most`: between subscriptions that fail.
    """

    heartbeat: float = 15.0
    recheck: float = 25.0
    backoff: float = 0.1
    backoff_most: float = 2.0


class EventStream(Response):
    """One client's stream, as the response that serves it.

    Args:
        subscribe: Opens a subscription after a number.
        after: Where to start.
        ends: The authority may end the stream: it was asked to, after a turn.
        recheck: Raises `Unauthenticated` or `PermissionDenied` when the client's rights are gone.
        stopping: Set when the gateway stops: streams end, clients reconnect elsewhere.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        subscribe: Subscribe,
        after: int,
        *,
        ends: bool,
        recheck: Callable[[], Awaitable[object]],
        stopping: asyncio.Event,
        pace: Pace,
    ) -> None:
        super().__init__(headers=_HEADERS)
        # A stream has no length.
        del self.headers["content-length"]
        self._subscribe = subscribe
        self._after = after
        self._ends = ends
        self._recheck = recheck
        self._stopping = stopping
        self._pace = pace

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serves until the first of its parts ends."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        await _write(send, b": herma\n\n")
        parts = [
            asyncio.ensure_future(part)
            for part in (
                self._pump(send),
                self._beat(send),
                self._watch_rights(),
                _gone(receive),
                self._stopping.wait(),
            )
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            for outcome in await asyncio.gather(*parts, return_exceptions=True):
                if isinstance(outcome, Exception):
                    _log.error("an event stream broke", exc_info=outcome)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        """Writes what the authority says, over its restarts, until the asked turn ended."""
        pause = self._pace.backoff
        while True:
            try:
                async with aclosing(self._subscribe(self._after)) as items:  # type: ignore[type-var]  # a generator
                    async for item in items:
                        if item.HasField("event"):
                            self._after = item.event.seq
                        pause = self._pace.backoff
                        await _write(send, frame(item))
                # Unasked, the authority ends a stream only because it is stopping.
                if self._ends:
                    return
            except HermaError as error:
                if error.kind not in _PASSING:
                    _log.warning("a subscription was refused", reason=error.reason)
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._pace.backoff_most)

    async def _beat(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._pace.heartbeat)
            await _write(send, b": still here\n\n")

    async def _watch_rights(self) -> None:
        """Ends when the rights are gone; not when nobody can tell, for then nothing is shown either."""
        while True:
            await asyncio.sleep(self._pace.recheck)
            try:
                await self._recheck()
            except HermaError as error:
                if error.kind in _REVOKED:
                    return


async def _gone(receive: Receive) -> None:
    """Waits until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


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


def _framed(head: str, data: Mapping[str, object]) -> bytes:
    # JSON escapes line ends, so the data is one line; half a character is escaped again as JSON does.
    text = json.dumps(data, ensure_ascii=False).translate(_SEPARATORS).encode("utf-8", "backslashreplace")
    return head.encode() + b"data: " + text + b"\n\n"
