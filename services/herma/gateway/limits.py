"""Limits on what comes in, before anything reads it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from herma.gateway.shapes import shaped

MAX_BODY = 1024 * 1024
MAX_DEPTH = 32

_TOO_LARGE = {
    "type": "about:blank",
    "title": "Content too large",
    "status": 413,
    "detail": f"the body is larger than {MAX_BODY} bytes",
    "reason": "BODY_TOO_LARGE",
}
_TOO_DEEP = {
    "type": "about:blank",
    "title": "Bad request",
    "status": 400,
    "detail": f"the JSON is nested deeper than {MAX_DEPTH}",
    "reason": "JSON_TOO_DEEP",
}
# A connection that is closed with bytes unread is reset, and the client may never see the answer; so
# what still comes is thrown away, within these limits.
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 32 * 1024 * 1024


class BodyLimit:
    """ASGI middleware: reads bodies up to the limit, refuses larger and deeper ones."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serves one request whose body is within the limits, and answers the others itself."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        announced = headers.get(b"content-length", b"0")
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            await self._app(scope, receive, send)
            return
        # With `Expect`, the client sends nothing until it is asked to.
        rest = None if b"expect" in headers else receive
        if not announced.isdigit() or int(announced) > MAX_BODY:
            await _answer(scope, send, _TOO_LARGE, rest)
            return
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if len(body) > MAX_BODY:
                await _answer(scope, send, _TOO_LARGE, receive)
                return
            if not message.get("more_body"):
                break
        if _depth(body) > MAX_DEPTH:
            await _answer(scope, send, _TOO_DEEP, None)
            return
        given = False

        async def replay() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, replay, send)


def _depth(body: bytearray) -> int:
    """How deep brackets nest outside of strings; at most a rough reading of what is no JSON."""
    depth = deepest = 0
    in_string = escaped = False
    for byte in body:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_DEPTH:
                return deepest
        elif byte in (0x5D, 0x7D):
            depth -= 1
    return deepest


async def _answer(scope: Any, send: Any, document: dict[str, Any], rest: Any) -> None:
    """Refuses, and throws away what `rest` still brings."""
    shape = shaped(scope["path"], document, {})
    body = json.dumps(shape.body).encode()
    await send(
        {
            "type": "http.response.start",
            "status": shape.status,
            "headers": [
                (b"content-type", shape.media_type.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if rest is not None:
        await _discard(rest)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Any) -> None:
    size = 0
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            while size < _LINGER_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return
