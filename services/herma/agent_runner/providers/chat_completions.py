"""API mode `chat_completions`: OpenAI's Chat Completions over HTTP with server-sent events.

Source: OpenAI API reference, "Create chat completion" and "Streaming"; spoken also by llama.cpp,
Ollama, vLLM and most hosted providers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from herma.agent_runner.domain.ledger import Usage
from herma.agent_runner.domain.provider import (
    FailureClass,
    ModelAnswer,
    ModelRequest,
    ProviderError,
    StreamItem,
    TextDelta,
    WantedCall,
)
from herma.common.redaction import redact

_MAX_ANSWER = 8 * 1024 * 1024
# What follows the end of a stream is the end of its response, often in the same packet.
_REST_SECONDS = 0.1


class ChatCompletions:
    """One model behind one base URL.

    Args:
        client: Its time-outs bound connecting and silence in mid-stream.
        base_url: Up to and with `/v1`.
    """

    def __init__(
        self, client: httpx.AsyncClient, base_url: str, model: str, api_key: str, name: str = "openai"
    ) -> None:
        self._client = client
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._api_key = api_key
        self.model = model
        self.name = name

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """See `Provider`."""
        headers = {"Accept": "text/event-stream"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        answer = _PartialAnswer()
        try:
            async with self._client.stream(
                "POST", self._url, json=_body(request), headers=headers
            ) as response:
                if response.status_code != 200:
                    raise await _refused(response)
                if "text/event-stream" not in response.headers.get("content-type", ""):
                    raise ProviderError(
                        FailureClass.TRANSIENT, "The model provider answered with something else."
                    )
                lines = _lines(response)
                async for line in lines:
                    if not line.startswith("data:"):
                        continue
                    data = line[5:].strip()
                    if data == "[DONE]":
                        answer.done = True
                        await _read_to_end(lines)
                        break
                    text = answer.take(data)
                    if text:
                        yield TextDelta(text)
        except httpx.TimeoutException as error:
            raise ProviderError(
                FailureClass.TRANSIENT, "The model provider did not answer in time."
            ) from error
        except httpx.HTTPError as error:
            raise ProviderError(
                FailureClass.TRANSIENT, "The connection to the model provider failed."
            ) from error
        yield answer.whole()


async def _read_to_end(lines: AsyncIterator[str]) -> None:
    """Lets the next call have this one's connection, which a response that is cut short takes with it."""
    try:
        async with asyncio.timeout(_REST_SECONDS):
            async for _ in lines:
                pass
    except (TimeoutError, httpx.HTTPError, ProviderError):
        pass  # the answer is whole; only the connection is lost


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    """Lines of server-sent events: ended by CR, LF or both, and by nothing else that Unicode has."""
    waiting = b""
    async for data in response.aiter_bytes():
        waiting += data
        *lines, waiting = waiting.replace(b"\r\n", b"\n").split(b"\n")
        if len(waiting) > _MAX_ANSWER:
            raise ProviderError(FailureClass.PERMANENT, "The model's answer is too large.")
        for line in lines:
            yield line.decode("utf-8", "replace").rstrip("\r")


def _body(request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model,
        "messages": list(request.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    return body


@dataclass(slots=True)
class _PartialAnswer:
    """What has come of an answer; `whole` refuses one that was cut."""

    text: list[str] = field(default_factory=list)
    size: int = 0
    calls: dict[int, list[str]] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = ""
    response_id: str = ""
    model: str = ""
    done: bool = False

    def take(self, data: str) -> str:
        """Adds one chunk; the text in it."""
        try:
            chunk = json.loads(data)
            return self._add(chunk)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProviderError(
                FailureClass.TRANSIENT, "The model provider sent a malformed chunk."
            ) from error

    def _add(self, chunk: dict[str, Any]) -> str:
        if "error" in chunk:
            raise ProviderError(FailureClass.TRANSIENT, "The model provider failed in mid-stream.")
        self.response_id = chunk.get("id") or self.response_id
        self.model = chunk.get("model") or self.model
        if chunk.get("usage"):
            self.usage = _usage(chunk["usage"])
        if not chunk.get("choices"):
            return ""
        choice = chunk["choices"][0]
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice.get("delta") or {}
        for part in delta.get("tool_calls") or ():
            call = self.calls.setdefault(int(part["index"]), ["", "", ""])
            function = part.get("function") or {}
            call[0] = part.get("id") or call[0]
            call[1] += function.get("name") or ""
            call[2] += function.get("arguments") or ""
            self._count(function.get("arguments") or "")
        text = delta.get("content") or ""
        if not isinstance(text, str):
            raise TypeError("content is no text")
        self.text.append(text)
        self._count(text)
        return text

    def _count(self, text: str) -> None:
        self.size += len(text)
        if self.size > _MAX_ANSWER:
            raise ProviderError(FailureClass.PERMANENT, "The model's answer is too large.")

    def whole(self) -> ModelAnswer:
        """The answer.

        Raises:
            ProviderError: when its end has not come.
        """
        if not self.finish_reason:
            raise ProviderError(FailureClass.TRANSIENT, "The model's answer was cut off.")
        return ModelAnswer(
            content="".join(self.text),
            calls=[WantedCall(*self.calls[index]) for index in sorted(self.calls)],
            usage=self.usage,
            finish_reason=self.finish_reason,
            response_id=self.response_id,
            model=self.model,
        )


def _usage(usage: dict[str, Any]) -> Usage:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=int(usage.get("prompt_tokens") or 0),
        output_tokens=int(usage.get("completion_tokens") or 0),
        cache_read_tokens=int(prompt.get("cached_tokens") or 0),
        reasoning_tokens=int(completion.get("reasoning_tokens") or 0),
    )


async def _refused(response: httpx.Response) -> ProviderError:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > 65_536:
            break
    status = response.status_code
    detail = _detail(body)
    if status in (408, 409, 425, 429) or status >= 500:
        return ProviderError(
            FailureClass.TRANSIENT,
            f"The model provider is busy or failing (HTTP {status}).{detail}",
            _retry_after(response),
        )
    if status in (401, 402, 403):
        return ProviderError(
            FailureClass.CREDENTIAL, f"The model provider refused the key (HTTP {status}).{detail}"
        )
    return ProviderError(
        FailureClass.PERMANENT, f"The model provider refused the request (HTTP {status}).{detail}"
    )


def _detail(body: bytes) -> str:
    try:
        error = json.loads(body)["error"]
        message = error["message"] if isinstance(error, dict) else str(error)
    except (ValueError, KeyError, TypeError):
        return ""
    return " " + redact(str(message))[:500]


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers.get("retry-after", "")))
    except ValueError:
        return None
