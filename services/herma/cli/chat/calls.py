"""Tool calls of a turn, each folded into one line.  Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from herma.cli.terminal_text import clean, one_line

# How `terminal` begins its result.
_STATUS = re.compile(r"\[(exit code -?\d+|killed by signal \d+|timed out after [^\]\n]*)\]\n?")
# The argument that says most about a call, by tool.
_TELLING = ("command", "path", "query", "url", "question", "content", "action", "name")


@dataclass(slots=True)
class Call:
    """One call as the events tell it."""

    id: str
    tool: str
    arguments: str
    started_at: str = ""
    ended_at: str = ""
    state: str = "proposed"
    is_error: bool = False
    output: str = ""

    @property
    def seconds(self) -> float | None:
        """How long it ran; None while it runs or when it never did."""
        if not self.started_at or not self.ended_at:
            return None
        began, ended = (datetime.fromisoformat(at) for at in (self.started_at, self.ended_at))
        return max(0.0, (ended - began).total_seconds())

    @property
    def status(self) -> str:
        """Exit status or state, in words."""
        found = _STATUS.match(self.output) if self.tool == "terminal" else None
        if found:
            return found[1].replace("exit code", "exit")
        if self.state != "completed":
            return self.state.replace("_", " ")
        return "error" if self.is_error else "ok"

    @property
    def text(self) -> str:
        """The output without the line that gives the status."""
        found = _STATUS.match(self.output) if self.tool == "terminal" else None
        return self.output[found.end() :] if found else self.output

    def summary(self, width: int) -> str:
        """Tool, arguments, status, seconds and lines, in one safe line of at most `width` cells."""
        lines = len(self.text.splitlines())
        facts = [self.status]
        if self.seconds is not None:
            facts.append(f"{self.seconds:.1f} s")
        facts.append(f"{lines} line" + ("" if lines == 1 else "s"))
        end = " · ".join(facts)
        begin = f"{one_line(self.tool, 40)} "
        room = width - len(begin) - len(end) - 3
        if room < 8:
            return one_line(f"{begin}· {end}", width)
        return one_line(f"{begin}{one_line(telling(self.arguments), room)} · {end}", width)


class CallLog:
    """The calls of a conversation by id, in the order in which they were proposed."""

    def __init__(self) -> None:
        self.all: dict[str, Call] = {}

    def take(self, event: Mapping[str, Any]) -> Call | None:
        """The call that an event is about, brought up to date; None for other events."""
        if not event["kind"].startswith("call."):
            return None
        call = self.all.setdefault(
            event["call_id"],
            Call(event["call_id"], str(event.get("tool", "")), str(event.get("arguments", ""))),
        )
        if event["kind"] == "call.running":
            call.started_at = call.started_at or event["at"]
            call.state = "running"
        elif event["kind"] == "call.completed":
            call.ended_at = event["at"]
            call.state = event["state"]
            call.is_error = bool(event["is_error"])
            call.output = str(event.get("content", ""))
        return call

    @property
    def running(self) -> list[Call]:
        """Calls under way."""
        return [call for call in self.all.values() if call.state == "running"]


def telling(arguments: str) -> str:
    """What says most about a call in few words."""
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return arguments
    if isinstance(parsed, dict):
        for name in _TELLING:
            if isinstance(parsed.get(name), str):
                return str(parsed[name])
    return arguments


def expanded(call: Call, most_lines: int) -> list[str]:
    """A call's whole output as safe lines; where it is longer, the beginning and how much is left out."""
    lines = clean(call.text).splitlines()
    if len(lines) <= most_lines:
        return lines
    return [*lines[:most_lines], f"… {len(lines) - most_lines} more lines"]
