"""OpenAI's Chat Completions as bytes: what a request is, and how an answer is written.

Source: OpenAI API reference, "Chat", "Create chat completion", "The chat completion object", "The chat
completion chunk object" (https://platform.openai.com/docs/api-reference/chat) and the guide "Error
codes" (https://platform.openai.com/docs/guides/error-codes).

Invariant: an answer is streamed if and only if the request asked for it; steps need not know.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Cut(Exception):
    """Raised by a step: the connection is reset."""


@dataclass(slots=True)
class Request:
    """One request as it came.  Times are `time.monotonic()`, in seconds.

    Attributes:
        ended: When the last byte was sent, or the connection was lost; None while it is being answered.
        aborted: Whether the client closed the connection before the answer's end.
        status: The HTTP status that it was answered with; None while nothing was sent.
        refusal: What the vendor would refuse about it; empty if nothing.
    """

    body: dict[str, Any]
    headers: dict[str, str]
    began: float
    aborted: bool = False
    ended: float | None = None
    status: int | None = None
    refusal: str = ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation; empty if the body has none."""
        found = self.body.get("messages")
        return [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []

    @property
    def last_user(self) -> str:
        """The text of the last user message; empty if there is none."""
        return next((text_of(m) for m in reversed(self.messages) if m.get("role") == "user"), "")

    @property
    def since_user(self) -> list[dict[str, Any]]:
        """What came after it."""
        return self.messages[self._after_user :]

    @property
    def step(self) -> int:
        """The number of assistant messages since: which step of a script is asked for."""
        return sum(1 for m in self.since_user if m.get("role") == "assistant")

    @property
    def results(self) -> list[str]:
        """The tool results since, in order."""
        return [text_of(m) for m in self.since_user if m.get("role") == "tool"]

    @property
    def conversation(self) -> str:
        """The same for every retry and step of one turn: a digest up to the last user message."""
        head = json.dumps(self.messages[: self._after_user], sort_keys=True)
        return hashlib.sha256(head.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were offered."""
        return [str(tool["function"]["name"]) for tool in self.body.get("tools") or ()]

    @property
    def traceparent(self) -> str:
        """The W3C trace context that came with it; empty if none."""
        return self.headers.get("traceparent", "")

    @property
    def _after_user(self) -> int:
        users = [i for i, m in enumerate(self.messages) if m.get("role") == "user"]
        return users[-1] + 1 if users else 0


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, whose content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    return content if isinstance(content, str) else ""


@dataclass(slots=True)
class Reply:
    """How a step answers its request; every method may be awaited in any order before `end`."""

    request: Request
    send: Send
    number: int
    finished: bool = False
    _created: int = field(default_factory=lambda: int(time.time()))
    _content: str = ""
    _calls: dict[int, dict[str, Any]] = field(default_factory=dict)

    async def json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        """A whole response."""
        extra = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        await self._start(status, [(b"content-type", b"application/json"), *extra])
        await self._finish(_encoded(body))

    async def status(
        self, status: int, error: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        """An error in OpenAI's shape."""
        shape = {"message": "", "type": "invalid_request_error", "param": None, "code": None}
        await self.json(status, {"error": {**shape, **error}}, headers)

    async def line(self, data: str) -> None:
        """One event of the stream, whatever it says; nothing if the answer is not streamed."""
        if not self._streamed:
            return
        if self.request.status is None:
            await self._start(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
        encoded = f"data: {data}\n\n".encode("utf-8", "surrogatepass")
        await self.send({"type": "http.response.body", "body": encoded, "more_body": True})

    async def chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        """One chunk of the completion."""
        self._content += delta.get("content") or ""
        for part in delta.get("tool_calls") or ():
            self._merge(part)
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        await self._chunk([choice], None)

    async def end(self, finish_reason: str, output_tokens: int, input_tokens: int = 11) -> None:
        """The last chunks, or the whole completion."""
        usage = {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }
        if not self._streamed:
            await self.json(200, self._completion(finish_reason, usage))
            return
        await self.chunk({}, finish_reason)
        if self._usage_wanted:
            await self._chunk([], usage)
        await self.line("[DONE]")
        await self._finish(b"")

    @property
    def _streamed(self) -> bool:
        return self.request.body.get("stream") is True

    @property
    def _usage_wanted(self) -> bool:
        return bool((self.request.body.get("stream_options") or {}).get("include_usage"))

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.number}",
            "object": kind,
            "created": self._created,
            "model": self.request.body["model"],
        }

    async def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> None:
        body = {**self._head("chat.completion.chunk"), "choices": choices}
        if self._usage_wanted:
            body["usage"] = usage
        await self.line(_encoded(body).decode("utf-8", "surrogatepass"))

    def _completion(self, finish_reason: str, usage: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self._content if self._content or not self._calls else None,
            "refusal": None,
        }
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage}

    def _merge(self, part: dict[str, Any]) -> None:
        call = self._calls.setdefault(
            part["index"],
            {"id": part.get("id"), "type": "function", "function": {"name": "", "arguments": ""}},
        )
        for key, value in part["function"].items():
            call["function"][key] += value

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.request.status = status
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def _finish(self, body: bytes) -> None:
        self.finished = True
        await self.send({"type": "http.response.body", "body": body})


def _encoded(body: Any) -> bytes:
    # The vendor sends characters as they are, also those at which careless readers split lines.
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
