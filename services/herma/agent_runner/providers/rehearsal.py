"""`rehearsal`: runs the platform without any key.  It is not a model and says so.

Deterministic.  Of the user's message it understands lines of four forms, each one tool call:

- `$ COMMAND` runs a command;
- `read PATH` reads a file;
- `write PATH: TEXT` writes one;
- `remember: TEXT` stores a fact, which later sessions recall.

Without such a line it runs one harmless command, so that a first turn exercises every part.  Then it
answers with the results and with what was recalled, streamed word by word.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from herma.agent_runner.domain.ledger import Usage
from herma.agent_runner.domain.provider import (
    ModelAnswer,
    ModelRequest,
    StreamItem,
    TextDelta,
    WantedCall,
)
from herma.agent_runner.domain.recollection import split_recalled

_LABEL = "Rehearsal (no model is configured)."
_DEFAULT = 'echo "hello from $(hostname) as $(id -un) in $(pwd)"'
_WRITE = re.compile(r"write (?P<path>[^:\n]+): (?P<text>.*)")


class Rehearsal:
    """The built-in stand-in for a model."""

    name = "rehearsal"
    model = "rehearsal-1"

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """See `Provider`."""
        last_user = max(
            (i for i, message in enumerate(request.messages) if message["role"] == "user"), default=0
        )
        results = [
            message["content"]
            for message in request.messages[last_user + 1 :]
            if message["role"] == "tool"
        ]
        words, recalled = split_recalled(str(request.messages[last_user]["content"]))
        offered = {tool.name for tool in request.tools}
        if not results and not _has_answer(request.messages[last_user + 1 :]):
            calls = [call for call in _calls(words) if call.tool in offered]
            if calls:
                text = f"{_LABEL} I run {len(calls)} call{'s' if len(calls) > 1 else ''}."
                for word in re.findall(r"\S+\s*", text):
                    yield TextDelta(word)
                yield ModelAnswer(text, calls, _usage(request, text), "tool_calls", model=self.model)
                return
        shown = "\n".join(results) if results else "There is no tool to run."
        text = f"{_LABEL} The tools answered:\n{shown}"
        if recalled:
            text += "\nI was reminded of:\n" + "\n".join(recalled)
        for word in re.findall(r"\S+\s*", text):
            yield TextDelta(word)
        yield ModelAnswer(text, (), _usage(request, text), "stop", model=self.model)


def _has_answer(messages: Sequence[dict[str, Any]]) -> bool:
    return any(message["role"] == "assistant" for message in messages)


def _calls(content: str) -> list[WantedCall]:
    wanted: list[tuple[str, dict[str, str]]] = []
    for line in content.splitlines():
        line = line.strip()
        if line.startswith("$ "):
            wanted.append(("terminal", {"command": line[2:]}))
        elif line.startswith("read "):
            wanted.append(("read_file", {"path": line[5:].strip()}))
        elif line.startswith("remember: ") and line[10:].strip():
            wanted.append(("memory", {"action": "remember", "text": line[10:].strip()[:1_000]}))
        elif match := _WRITE.fullmatch(line):
            wanted.append(("write_file", {"path": match["path"], "content": match["text"]}))
    if not wanted:
        wanted.append(("terminal", {"command": _DEFAULT}))
    return [
        WantedCall(f"rehearsal_{i}", tool, json.dumps(arguments, ensure_ascii=False))
        for i, (tool, arguments) in enumerate(wanted)
    ]


def _usage(request: ModelRequest, text: str) -> Usage:
    words = sum(len(str(message.get("content") or "").split()) for message in request.messages)
    return Usage(input_tokens=words, output_tokens=len(text.split()))
