"""A scripted model server: OpenAI's Chat Completions over real HTTP and SSE, with faults.

Wire format: OpenAI API reference, "Create chat completion", "Streaming" and "Error codes".  It refuses
what the vendor would refuse: results without their calls, calls without their results, a wrong key.

Answers are chosen by what the conversation says, not by a global order: the first rule whose text is in
the last user message, and of its steps the one whose number is that of the assistant messages since.
So sessions may run at once, and a retried step gets the same answer again.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn


@dataclass(slots=True)
class Request:
    """One request as it came."""

    body: dict[str, Any]
    headers: dict[str, str]
    began: float
    aborted: bool = False
    ended: float | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation."""
        found: list[dict[str, Any]] = self.body["messages"]
        return found

    @property
    def last_user(self) -> str:
        """The last user message."""
        return next(str(m["content"]) for m in reversed(self.messages) if m["role"] == "user")

    @property
    def since_user(self) -> list[dict[str, Any]]:
        """What came after it."""
        index = max(i for i, m in enumerate(self.messages) if m["role"] == "user")
        return self.messages[index + 1 :]


Send = Callable[[dict[str, Any]], Awaitable[None]]
Step = Callable[["Reply"], Awaitable[None]]


@dataclass(slots=True)
class Reply:
    """How a step answers."""

    request: Request
    send: Send
    number: int
    _started: bool = field(default=False)

    async def status(
        self, status: int, error: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        """A plain error in OpenAI's shape."""
        body = json.dumps({"error": error}).encode()
        extra = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        await self.send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", b"application/json"), *extra],
            }
        )
        await self.send({"type": "http.response.body", "body": body})

    async def line(self, data: str) -> None:
        """One event of the stream."""
        if not self._started:
            self._started = True
            await self.send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
                }
            )
        await self.send(
            {"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True}
        )

    async def chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        """One chunk of a completion."""
        await self.line(
            json.dumps(
                {
                    "id": f"chatcmpl-{self.number}",
                    "object": "chat.completion.chunk",
                    "created": int(time.time()),
                    "model": self.request.body["model"],
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
                    "usage": None,
                }
            )
        )

    async def end(self, finish_reason: str, output_tokens: int) -> None:
        """The last chunks."""
        await self.chunk({}, finish_reason)
        if (self.request.body.get("stream_options") or {}).get("include_usage"):
            await self.line(
                json.dumps(
                    {
                        "id": f"chatcmpl-{self.number}",
                        "object": "chat.completion.chunk",
                        "created": int(time.time()),
                        "model": self.request.body["model"],
                        "choices": [],
                        "usage": {
                            "prompt_tokens": 11,
                            "completion_tokens": output_tokens,
                            "total_tokens": 11 + output_tokens,
                        },
                    }
                )
            )
        await self.line("[DONE]")
        await self.send({"type": "http.response.body", "body": b""})


class Cut(Exception):
    """Resets the connection."""


def text(content: str, per_chunk: float = 0.0) -> Step:
    """Answers with text, word by word."""

    async def step(reply: Reply) -> None:
        await reply.chunk({"role": "assistant", "content": ""})
        words = content.split(" ")
        for index, word in enumerate(words):
            await reply.chunk({"content": word if index == 0 else " " + word})
            if per_chunk:
                await asyncio.sleep(per_chunk)
        await reply.end("stop", len(words))

    return step


def echo_results() -> Step:
    """Answers with the text of the newest tool results."""

    async def step(reply: Reply) -> None:
        results = [str(m["content"]) for m in reply.request.since_user if m["role"] == "tool"]
        await text("\n".join(results))(reply)

    return step


def calls(*wanted: tuple[str, dict[str, Any] | str], ids: list[str] | None = None) -> Step:
    """Answers with tool calls, their arguments split over chunks."""

    async def step(reply: Reply) -> None:
        await reply.chunk({"role": "assistant", "content": None})
        for index, (tool, arguments) in enumerate(wanted):
            raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
            call_id = ids[index] if ids else f"call_{index}"
            await reply.chunk(
                {
                    "tool_calls": [
                        {
                            "index": index,
                            "id": call_id,
                            "type": "function",
                            "function": {"name": tool, "arguments": ""},
                        }
                    ]
                }
            )
            half = len(raw) // 2
            for part in (raw[:half], raw[half:]):
                await reply.chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        await reply.end("tool_calls", 5)

    return step


def fault_status(status: int, retry_after: float | None = None) -> Step:
    """Refuses with a status."""

    async def step(reply: Reply) -> None:
        headers = {"retry-after": str(retry_after)} if retry_after is not None else {}
        await reply.status(
            status, {"message": f"scripted {status}", "type": "server_error", "code": None}, headers
        )

    return step


def hang(seconds: float = 60.0) -> Step:
    """Accepts and says nothing."""

    async def step(reply: Reply) -> None:
        await asyncio.sleep(seconds)
        raise Cut

    return step


def cut(after: int = 2) -> Step:
    """Breaks off in mid-stream."""

    async def step(reply: Reply) -> None:
        for index in range(after):
            await reply.chunk({"content": f"partial{index} "})
        raise Cut

    return step


def malformed() -> Step:
    """Sends what is no JSON."""

    async def step(reply: Reply) -> None:
        await reply.chunk({"content": "partial "})
        await reply.line('{"id": "broken", "choices": [')
        raise Cut

    return step


def first(faults: list[Step], then: Step) -> Step:
    """The faults one after the other, then the real answer; counted per conversation."""
    seen: dict[str, int] = {}

    async def step(reply: Reply) -> None:
        key = reply.request.last_user
        number = seen.get(key, 0)
        seen[key] = number + 1
        await (faults[number] if number < len(faults) else then)(reply)

    return step


class ScriptedModelServer:
    """Serves in a thread of its own; use it as a context manager."""

    def __init__(self, api_key: str = "test-key") -> None:
        self.api_key = api_key
        self.requests: list[Request] = []
        self._rules: list[tuple[str, list[Step]]] = []
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def on(self, word: str, *steps: Step) -> None:
        """What to answer when `word` is in the last user message."""
        self._rules.append((word, list(steps)))

    @property
    def base_url(self) -> str:
        """Up to and with `/v1`."""
        assert self._server is not None
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def matching(self, word: str) -> list[Request]:
        """Requests whose last user message has this word."""
        return [request for request in list(self.requests) if word in request.last_user]

    def __enter__(self) -> ScriptedModelServer:
        config = uvicorn.Config(
            self._app,
            host="127.0.0.1",
            port=0,
            interface="asgi3",
            log_config=None,
            lifespan="off",
            access_log=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until = time.monotonic() + 20
        while not self._server.started:
            if time.monotonic() > until:
                raise AssertionError("the scripted model server did not start")
            time.sleep(0.005)
        return self

    def __exit__(self, *_exception: object) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(10)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {k.decode().lower(): v.decode() for k, v in scope["headers"]}
        if scope["path"] != "/v1/chat/completions":
            request = Request({"model": "", "messages": []}, headers, time.monotonic())
            await Reply(request, send, 0).status(404, {"message": "not found"})
            return
        request = Request(json.loads(body), headers, time.monotonic())
        reply = Reply(request, send, len(self.requests))
        self.requests.append(request)
        if headers.get("authorization") != f"Bearer {self.api_key}":
            await reply.status(401, {"message": "Incorrect API key provided", "code": "invalid_api_key"})
            return
        problem = wrong_with(request.messages)
        if problem:
            await reply.status(400, {"message": problem, "type": "invalid_request_error"})
            return
        answering = asyncio.ensure_future(self._answer(reply))
        gone = asyncio.ensure_future(_disconnected(receive))
        await asyncio.wait([answering, gone], return_when=asyncio.FIRST_COMPLETED)
        request.ended = time.monotonic()
        if not answering.done():
            request.aborted = True
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            return
        gone.cancel()
        answering.result()

    async def _answer(self, reply: Reply) -> None:
        turn = sum(1 for m in reply.request.since_user if m["role"] == "assistant")
        for word, steps in self._rules:
            if word in reply.request.last_user:
                await steps[min(turn, len(steps) - 1)](reply)
                return
        await text("nothing is scripted for this")(reply)


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def wrong_with(messages: list[dict[str, Any]]) -> str:
    """What the vendor would refuse about a conversation; empty if nothing."""
    open_calls: list[str] = []
    for message in messages:
        role = message["role"]
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "messages with role 'tool' must follow the call that they answer"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return "an assistant message with 'tool_calls' must be followed by all of their results"
        if role == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
            if not open_calls and not message.get("content"):
                return "an assistant message needs content or tool calls"
    return "tool calls without results" if open_calls else ""
