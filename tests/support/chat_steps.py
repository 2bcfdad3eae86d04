"""The steps of a script: answers and faults, each one model call's reply.

Wire: OpenAI API reference, "Streaming" (deltas; a tool call's arguments come in fragments, joined by
`index`) and the guide "Error codes" (429 with `Retry-After`, 500).

Invariant: a step holds no state, so that any number of sessions may be at the same step at once.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tests.support.chat_wire import Cut, Reply, Request

Call = tuple[str, dict[str, Any] | str]


@dataclass(frozen=True, slots=True)
class Step:
    """How one model call is answered.

    Attributes:
        times: None for a step of its own.  Else it stands before the step that follows it and is played
            that many times for each conversation, after which that step is.
    """

    play: Callable[[Reply], Awaitable[None]]
    times: int | None = None


Scripted = Step | Callable[[Request], Step]


def text(content: str, chunks: int | None = None, per_chunk: float = 0.0, input_tokens: int = 11) -> Step:
    """Answers with text, word by word or in so many chunks, `per_chunk` seconds after each."""
    words = re.findall(r"\s*\S+(?:\s+\Z)?", content) or [content]
    return _speak(words if chunks is None else _split(content, chunks), per_chunk, input_tokens)


def slow(content: str, per_token: float = 0.2) -> Step:
    """Answers with text, in tokens of four characters, `per_token` seconds after each."""
    return _speak([content[i : i + 4] for i in range(0, len(content), 4)], per_token)


def _speak(parts: Sequence[str], delay: float, input_tokens: int = 11) -> Step:
    async def play(reply: Reply) -> None:
        await reply.chunk({"role": "assistant", "content": ""})
        for part in parts:
            await reply.chunk({"content": part})
            if delay:
                await asyncio.sleep(delay)
        await reply.end("stop", len(parts), input_tokens)

    return Step(play)


def echo_results() -> Step:
    """Answers with the text of the turn's tool results, in their order, one per line."""

    async def play(reply: Reply) -> None:
        await text("\n".join(reply.request.results)).play(reply)

    return Step(play)


def call(tool: str, **arguments: Any) -> Call:
    """A tool call for `calls`."""
    return tool, arguments


def calls(
    *wanted: Call,
    text: str | None = None,
    ids: Sequence[str] | None = None,
    fragments: int = 2,
    per_chunk: float = 0.0,
) -> Step:
    """Answers with tool calls, the arguments of each in a number of fragments.

    Ids are `call_0`, `call_1`, …, the same at every step: providers do repeat them.  Arguments that are
    a string are sent as they are.
    """

    async def play(reply: Reply) -> None:
        await reply.chunk({"role": "assistant", "content": None})
        for part in _split(text, 2) if text else ():
            await reply.chunk({"content": part})
        for index, (tool, arguments) in enumerate(wanted):
            raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
            call_id = ids[index] if ids else f"call_{index}"
            begun = {
                "index": index,
                "id": call_id,
                "type": "function",
                "function": {"name": tool, "arguments": ""},
            }
            await reply.chunk({"tool_calls": [begun]})
            for part in _split(raw, fragments):
                await reply.chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
                if per_chunk:
                    await asyncio.sleep(per_chunk)
        await reply.end("tool_calls", 5 * len(wanted))

    return Step(play)


def raw_arguments(raw: str, tool: str = "terminal") -> Step:
    """Calls a tool with arguments that are sent as they are, for instance no JSON."""
    return calls((tool, raw))


def unknown_tool(name: str = "no_such_tool") -> Step:
    """Calls a tool that was not offered."""
    return calls(call(name))


def fault_status(
    status: int, retry_after: float | None = None, times: int | None = None, code: str = ""
) -> Step:
    """Refuses with a status, in OpenAI's error shape."""
    kind = code or {429: "rate_limit_exceeded"}.get(status, "server_error" if status >= 500 else None)

    async def play(reply: Reply) -> None:
        headers = {"retry-after": f"{retry_after:g}"} if retry_after is not None else {}
        error = {"message": f"scripted {status}", "type": kind or "invalid_request_error", "code": kind}
        await reply.status(status, error, headers)

    return Step(play, times)


def hang(seconds: float = 60.0, times: int | None = None) -> Step:
    """Accepts and sends nothing until the client goes, or for so long; then the connection is reset."""

    async def play(reply: Reply) -> None:
        await asyncio.sleep(seconds)
        raise Cut

    return Step(play, times)


def cut(after: int = 2, times: int | None = None) -> Step:
    """Resets the connection after so many chunks of text."""

    async def play(reply: Reply) -> None:
        for index in range(after):
            await reply.chunk({"content": f"partial{index} "})
        # Only what was read survives a reset.
        await asyncio.sleep(0.05)
        raise Cut

    return Step(play, times)


def malformed(times: int | None = None) -> Step:
    """Sends a chunk that is no JSON, and goes on as if nothing had happened."""

    async def play(reply: Reply) -> None:
        if reply.request.body.get("stream") is not True:
            await reply.json(200, "no completion")
            return
        await reply.chunk({"role": "assistant", "content": "partial "})
        await reply.line('{"id": "broken", "choices": [')
        await reply.chunk({"content": "answer"})
        await reply.end("stop", 2)

    return Step(play, times)


def first(faults: Sequence[Step], then: Scripted) -> tuple[Scripted, ...]:
    """The faults one after the other, each as often as its `times` says or once; then the real answer."""
    return *(replace(fault, times=fault.times or 1) for fault in faults), then


def _split(content: str, parts: int) -> list[str]:
    """Splits into at most that many parts, none of them empty."""
    bounds = [len(content) * i // parts for i in range(parts + 1)]
    found = [content[a:b] for a, b in pairwise(bounds)]
    return [part for part in found if part]
