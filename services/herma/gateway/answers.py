"""Serves a turn's answer: whole once the turn has ended, or streamed as it comes.

Invariant: the turn does not depend on who listens.  Whatever ends an answer, the turn goes on, and the
same request under the same key is answered from the same turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from herma.api.session.v1 import session_pb2
from herma.common.errors import HermaError, Internal, Unauthenticated, Unavailable
from herma.common.logs import logger
from herma.common.problem import problem
from herma.gateway import errors
from herma.gateway.attendance import Departure, Receive, attend
from herma.gateway.completions.outcome import Failed
from herma.gateway.pace import Pace
from herma.gateway.shapes import openai_error, shaped_as_openai
from herma.gateway.sse import EventStream, Send

_log = logger(__name__)

_REVOKED = Failed(401, "invalid_request_error", "invalid_api_key", "The API key no longer works.")
_STOPPING = Failed(
    503,
    "server_error",
    "unavailable",
    "This gateway is stopping. The turn goes on: send the same request with the same Idempotency-Key to "
    "get its answer.",
)
_LOST = Failed(500, "server_error", "internal", "The turn's events came to no end.")


@dataclass(frozen=True, slots=True)
class Listener:
    """Who waits for an answer, and what is told besides it.

    `has_key`: the client named an idempotency key, so that it may ask again without another turn.
    """

    recheck: Callable[[], Awaitable[object]]
    stopping: asyncio.Event
    pace: Pace
    headers: Mapping[str, str]
    has_key: bool


Items = AsyncIterator[session_pb2.SubscribeResponse]


class Telling(Protocol):
    """One turn's answer in the words of one of OpenAI's APIs, told once."""

    @property
    def ended(self) -> bool:
        """Whether nothing that comes can change it."""
        ...

    def beginning(self) -> bytes:
        """What a stream sends first."""
        ...

    def take(self, item: session_pb2.SubscribeResponse) -> bytes:
        """Takes what the authority says next; what a stream sends now."""
        ...

    def end(self) -> bytes:
        """What a stream sends last, once it has ended."""
        ...

    def error(self, failed: Failed) -> bytes:
        """What a stream sends last when it can say no more, though the turn may go on."""
        ...

    def whole(self) -> Mapping[str, Any] | Failed:
        """The whole answer's body once it has ended, or why there is none."""
        ...


def streamed_answer(items: Items, telling: Telling, listener: Listener) -> EventStream:
    """The answer as it comes.

    Args:
        items: What the authority says after the turn was queued, until the turn's end.
    """
    farewells = {Departure.RIGHTS: _REVOKED, Departure.GATEWAY: _STOPPING}
    return EventStream(
        _frames(items, telling),
        recheck=listener.recheck,
        stopping=listener.stopping,
        pace=listener.pace,
        headers=listener.headers,
        farewell=lambda departure: telling.error(farewells[departure]) if departure in farewells else b"",
    )


async def _frames(items: Items, telling: Telling) -> AsyncIterator[bytes]:
    yield telling.beginning()
    try:
        async with aclosing(items) as followed:  # type: ignore[type-var]  # a generator
            async for item in followed:
                if frames := telling.take(item):
                    yield frames
                if telling.ended:
                    break
    except HermaError as error:
        yield telling.error(_refused(error))
        return
    yield telling.end() if telling.ended else telling.error(_LOST)


def _refused(error: HermaError) -> Failed:
    _log.warning("a turn's events were refused", reason=error.reason)
    shape = shaped_as_openai(problem(error), {})
    told = shape.body["error"]
    return Failed(shape.status, told["type"], told["code"], told["message"])


class WholeAnswer(Response):
    """The answer once the turn has ended.

    Args:
        items: What the authority says after the turn was queued, until the turn's end.
    """

    def __init__(self, request: Request, items: Items, telling: Telling, listener: Listener) -> None:
        super().__init__(headers=dict(listener.headers))
        self._request = request
        self._items = items
        self._telling = telling
        self._listener = listener
        self._response: Response | None = None

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answers, unless nobody is there any more."""
        departure = await attend(
            self._wait(),
            receive,
            recheck=self._listener.recheck,
            stopping=self._listener.stopping,
            pace=self._listener.pace,
        )
        response = self._response
        if departure is Departure.RIGHTS:
            response = self._refusal(Unauthenticated(_REVOKED.message, reason="API_KEY_INVALID"))
        elif departure is Departure.GATEWAY:
            response = self._refusal(Unavailable(_STOPPING.message, retry_after=1))
        if response is not None:
            await response(scope, receive, send)

    async def _wait(self) -> None:
        try:
            async with aclosing(self._items) as followed:  # type: ignore[type-var]  # a generator
                async for item in followed:
                    self._telling.take(item)
                    if self._telling.ended:
                        break
        except HermaError as error:
            self._response = self._refusal(error)
            return
        if not self._telling.ended:
            self._response = self._refusal(Internal(_LOST.message))
            return
        whole = self._telling.whole()
        if isinstance(whole, Failed):
            self._response = self._failure(whole)
        else:
            self._response = JSONResponse(whole, headers=dict(self._listener.headers))

    def _failure(self, failed: Failed) -> Response:
        # A library that tries again by itself would get the same end, or without a key another turn.
        headers = {**self._listener.headers, "x-should-retry": "false"}
        body = openai_error(failed.message, failed.kind, failed.code)
        return JSONResponse(body, status_code=failed.status, headers=headers)

    def _refusal(self, error: HermaError) -> Response:
        response = errors.response_of(self._request, error)
        response.headers.update(self._listener.headers)
        if not self._listener.has_key:
            # The turn was admitted, and trying again by itself a library would start another.
            response.headers["x-should-retry"] = "false"
        return response
