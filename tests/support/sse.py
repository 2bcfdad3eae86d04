"""A client of server-sent events that comes back with `Last-Event-ID`, as a browser's does.

Source: WHATWG HTML, "Server-sent events", §9.2.5 "Parsing an event stream" and §9.2.6 "Interpreting an
event stream".  Lines end at CR, LF or CRLF only: other Unicode line ends belong to the data.

Invariant: `last_id` is the id of the newest numbered event that was handed out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

import httpx


class SseEvent(NamedTuple):
    """One event; `id` is None if it came without one."""

    id: str | None
    event: str
    data: Any


class SseClient:
    """Reads one stream; iterate it for one connection, or use `until` to follow it over several.

    Args:
        http: Its base URL, headers and time-outs hold.
        last_id: Where to begin: sent as `Last-Event-ID`.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        params: Mapping[str, str] | None = None,
        last_id: str | int | None = None,
    ) -> None:
        self._http = http
        self._url = url
        self._params = dict(params or {})
        self.last_id = None if last_id is None else str(last_id)
        self.connections = 0

    async def __aiter__(self) -> AsyncIterator[SseEvent]:
        """Events until the server ends the stream.

        Raises:
            httpx.TransportError: when the connection is lost.
            AssertionError: when the server answers with something else.
        """
        headers = {"Accept": "text/event-stream"}
        if self.last_id is not None:
            headers["Last-Event-ID"] = self.last_id
        async with self._http.stream("GET", self._url, params=self._params, headers=headers) as response:
            if response.status_code >= 500:
                raise httpx.RemoteProtocolError(f"HTTP {response.status_code}", request=response.request)
            assert response.status_code == 200, (await response.aread()).decode("utf-8", "replace")
            assert response.headers["content-type"].startswith("text/event-stream")
            self.connections += 1
            async for event in _events(response.aiter_bytes()):
                if event.id is not None:
                    self.last_id = event.id
                yield event

    async def until(self, kind: str, timeout: float = 60.0) -> list[SseEvent]:
        """All events up to and with the first of this kind, over as many connections as it takes.

        Raises:
            AssertionError: when it does not come in time.
        """
        seen: list[SseEvent] = []
        scope = asyncio.timeout(timeout)
        try:
            async with scope:
                while True:
                    try:
                        async with aclosing(aiter(self)) as events:  # type: ignore[type-var]
                            async for event in events:
                                seen.append(event)
                                if event.event == kind:
                                    return seen
                    except httpx.TransportError:
                        pass
                    # The specification's reconnection time, shortened.
                    await asyncio.sleep(0.05)
        except TimeoutError:
            if not scope.expired():
                raise
            kinds = [event.event for event in seen]
            raise AssertionError(f"no {kind!r} within {timeout:g} s; events: {kinds}") from None


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[SseEvent]:
    number: str | None = None
    kind, data = "message", list[str]()
    async for line in _lines(chunks):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield SseEvent(number, kind, json.loads("\n".join(data)))
            number, kind, data = None, "message", []
        elif name == "id" and "\0" not in value:
            number = value
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        rest += chunk
        # A CR at the very end may be half of a CRLF.
        held = rest.endswith(b"\r")
        whole = (rest[:-1] if held else rest).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = whole.split(b"\n")
        rest += b"\r" if held else b""
        for line in lines:
            yield line.decode("utf-8")
