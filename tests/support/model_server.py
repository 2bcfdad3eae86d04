"""A scripted model server: OpenAI's Chat Completions over real HTTP and SSE, with faults.

Sources: OpenAI API reference, "Chat" and "Models" (https://platform.openai.com/docs/api-reference), and
the guide "Error codes".  The wire is in `chat_wire`, what the vendor refuses in `chat_rules`, the steps
in `chat_steps`, how they are chosen in `chat_script`.

It serves in a thread with a loop of its own, so that one server outlives the loops of single tests, or
as a process: `python -m tests.support.model_server --port 0 --script script.json` prints its base URL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.support.chat_rules import Refusal, refusal, wrong_with
from tests.support.chat_script import Match, Script
from tests.support.chat_steps import (
    Scripted,
    Step,
    call,
    calls,
    cut,
    echo_results,
    fault_status,
    first,
    hang,
    malformed,
    raw_arguments,
    slow,
    text,
    unknown_tool,
)
from tests.support.chat_wire import Cut, Reply, Request, text_of
from tests.support.waiting import eventually

__all__ = [
    "Reply",
    "Request",
    "ScriptedModelServer",
    "Step",
    "call",
    "calls",
    "cut",
    "echo_results",
    "fault_status",
    "first",
    "hang",
    "malformed",
    "raw_arguments",
    "slow",
    "text",
    "text_of",
    "unknown_tool",
    "wrong_with",
]


class ScriptedModelServer:
    """Answers by a script, records every request; use it as a context manager.

    Args:
        api_key: The key that requests must carry; empty to ask for none.
        models: The models that exist.
        port: 0 for a random one.
    """

    def __init__(
        self, api_key: str = "test-key", models: Sequence[str] = ("scripted",), port: int = 0
    ) -> None:
        self.api_key = api_key
        self.models = tuple(models)
        self.requests: list[Request] = []
        self.script = Script()
        self._transports: dict[tuple[str, int], asyncio.Transport] = {}
        self._socket = socket.create_server(("127.0.0.1", port), backlog=512)
        self._port = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            http=_protocol(self._transports),
            interface="asgi3",
            log_config=None,
            lifespan="off",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), daemon=True, name="model-server"
        )

    def on(self, match: Match, *steps: Scripted | Sequence[Scripted]) -> None:
        """What to answer when the last user message contains (or fits) `match`; see `Script.on`."""
        self.script.on(match, *steps)

    @property
    def base_url(self) -> str:
        """Up to and with `/v1`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def refused(self) -> list[Request]:
        """Requests that the vendor would have refused: a platform should have sent none."""
        return [request for request in list(self.requests) if request.refusal]

    def matching(self, word: str) -> list[Request]:
        """Requests whose last user message has this word."""
        return [request for request in list(self.requests) if word in request.last_user]

    async def wait_for_request(
        self, wanted: str | Callable[[Request], bool], timeout: float = 30.0
    ) -> Request:
        """The first request, past or to come, that fits, or has this word in its last user message.

        Raises:
            AssertionError: when none came in time.
        """

        def look() -> Request | None:
            for request in list(self.requests):
                if wanted in request.last_user if isinstance(wanted, str) else wanted(request):
                    return request
            return None

        return await eventually(look, f"a request to the model: {wanted}", timeout)

    def start(self) -> None:
        """Serves; connections are accepted from now on."""
        # The socket listens already: what connects before the loop runs waits in its queue.
        self._thread.start()

    def close(self) -> None:
        """Ends all answers and stops."""
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()
        assert not self._thread.is_alive(), "the scripted model server did not stop"

    def __enter__(self) -> ScriptedModelServer:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body = await _body(receive)
        if scope["type"] != "http" or body is None:
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        request = Request(body if isinstance(body, dict) else {}, headers, time.monotonic())
        reply = Reply(request, send, len(self.requests))
        endpoint = (scope["method"], scope["path"])
        problem = self._wrong_key(headers)
        if problem is None and endpoint == ("GET", "/v1/models"):
            await reply.json(200, self._list_models())
            return
        if endpoint != ("POST", "/v1/chat/completions"):
            problem = problem or Refusal(404, f"Invalid URL ({endpoint[0]} {endpoint[1]})")
        else:
            self.requests.append(request)
            problem = problem or refusal(body, self.models)
        if problem is not None:
            request.refusal = problem.message
            error = {"message": problem.message, "param": problem.param, "code": problem.code}
            await reply.status(problem.status, error)
            request.ended = time.monotonic()
            return
        await self._answer_while_connected(reply, receive, tuple(scope["client"]))

    async def _answer_while_connected(self, reply: Reply, receive: Any, client: tuple[str, int]) -> None:
        """Plays the step until it ends or the client goes, which the vendor notices too."""
        step = self.script.choose(reply.request)
        answering = asyncio.ensure_future(step.play(reply))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait([answering, gone], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and not reply.finished:
                reply.request.aborted = True
                answering.cancel()
            await answering
        except Cut:
            _reset(self._transports[client])
            await gone
        except asyncio.CancelledError:
            if not reply.request.aborted:
                raise
        finally:
            reply.request.ended = time.monotonic()
            answering.cancel()
            gone.cancel()

    def _wrong_key(self, headers: dict[str, str]) -> Refusal | None:
        given = headers.get("authorization", "")
        if not self.api_key or given == f"Bearer {self.api_key}":
            return None
        if not given:
            return Refusal(401, "You didn't provide an API key.")
        return Refusal(401, "Incorrect API key provided.", None, "invalid_api_key")

    def _list_models(self) -> dict[str, Any]:
        found = [
            {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "herma-tests"}
            for name in self.models
        ]
        return {"object": "list", "data": found}


async def _body(receive: Any) -> Any:
    """The request's JSON; an empty string if it is none, None if the client went before its end."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    try:
        return json.loads(body) or ""
    except ValueError:
        return ""


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _protocol(transports: dict[tuple[str, int], asyncio.Transport]) -> type[H11Protocol]:
    """HTTP as uvicorn speaks it, remembering the connection of every client, to reset it."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._peer = tuple(transport.get_extra_info("peername")[:2])
            transports[self._peer] = transport

        def connection_lost(self, exc: Exception | None) -> None:
            transports.pop(self._peer, None)
            super().connection_lost(exc)

    return Protocol


def _reset(transport: asyncio.Transport) -> None:
    """Closes with RST instead of FIN: the client sees a lost connection, not an end."""
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()


def main() -> None:
    """Serves a script from a file until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible model server for tests.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, help='{"api_key": …, "models": […], "rules": […]}')
    arguments = parser.parse_args()
    script = json.loads(arguments.script.read_text("utf-8")) if arguments.script else {}
    stops = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    server = ScriptedModelServer(
        script.get("api_key", ""), script.get("models", ["scripted"]), arguments.port
    )
    server.script.read(script.get("rules", []))
    with server:
        print(server.base_url, flush=True)
        signal.sigwait(stops)


if __name__ == "__main__":
    main()
