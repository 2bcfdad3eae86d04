"""Shows a turn on a terminal as it runs.

What is final scrolls by: finished blocks of the answer, finished calls, notes.  What still moves (the
block that grows, calls under way) is drawn below it and redrawn in place, never taller than the window.
On a terminal that cannot move its cursor everything is only appended.

Invariant: all text of others passes `terminal_text` before it gets here or right here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from herma.cli.chat.answer import Blocks, StreamedText
from herma.cli.chat.calls import Call, CallLog, expanded
from herma.cli.chat.safe_markdown import SafeMarkdown
from herma.cli.terminal_text import clean, one_line

_RECALLED = re.compile(r"recalled:\s*(\d+)")
_MOST_LINES = 2_000


class TurnScreen:
    """One turn on one console; use it as a context manager around the turn's events.

    Args:
        calls: Where the calls are kept, also for later.
        verbose: Show the whole output of calls.
    """

    def __init__(self, console: Console, calls: CallLog, verbose: bool) -> None:
        self._console = console
        self._calls = calls
        self._verbose = verbose
        self._moves = console.is_terminal and not console.is_dumb_terminal
        self._texts: dict[str, StreamedText] = {}
        self._blocks = Blocks()
        self._shown = False
        self._column_zero = True
        self._began = time.monotonic()
        self.note = ""
        self._live: Live | None = None

    def __enter__(self) -> TurnScreen:
        if self._moves:
            self._live = Live(
                _Moving(self),
                console=self._console,
                transient=True,
                refresh_per_second=10,
                vertical_overflow="crop",
            )
            self._live.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._end_line()
        if self._live is not None:
            self._live.stop()

    def interrupting(self) -> None:
        """Ctrl-C was pressed.  Called by a signal handler: it must not draw, only say."""
        self.note = "interrupting; Ctrl-C again leaves"
        if not self._moves:
            os.write(2, b"\n[interrupting; Ctrl-C again leaves]\n")

    def lost(self) -> None:
        """The connection was cut."""
        self._say("the connection was lost; reconnecting", "yellow")

    def take(self, event: Mapping[str, Any]) -> None:
        """Shows one event of the turn."""
        kind = event["kind"]
        if kind == "message.delta":
            text = self._texts.setdefault(event["message_id"], StreamedText())
            self._write(text.take(event["offset"], event["text"]))
        elif kind == "message.completed":
            self._complete(event)
        elif kind == "message.discarded":
            self._withdraw(event)
        elif kind == "status":
            self._status(event)
        elif kind == "turn.resumed":
            self._say(f"another runner goes on (attempt {event.get('attempt', '?')})", "yellow")
        elif kind == "call.completed":
            if (call := self._calls.take(event)) is not None:
                self.call(call)
        else:
            self._calls.take(event)

    def call(self, call: Call) -> None:
        """Shows a finished call, folded unless everything is to be shown."""
        self._end_line()
        good = not call.is_error and call.state == "completed"
        mark, style = ("✓", "green") if good else ("✗", "red")
        summary = call.summary(self._console.width - 2)
        self._print(Text.assemble((f"{mark} ", style), (summary, "dim")))
        if self._verbose:
            for part in expanded(call, _MOST_LINES):
                self._print(Text("  " + part, style="dim"))

    def _write(self, text: str) -> None:
        if not text:
            return
        self._shown = True
        if self._moves:
            if final := self._blocks.add(text):
                self._print(SafeMarkdown(final))
            return
        text = clean(text)
        self._console.out(text, end="", highlight=False)
        self._console.file.flush()
        self._column_zero = text.endswith("\n")

    def _complete(self, event: Mapping[str, Any]) -> None:
        streamed = self._texts.pop(event["message_id"], StreamedText()).text
        content = str(event["content"])
        if not content.startswith(streamed):
            self._withdraw({"reason": "the final text is another"})
            streamed = ""
        self._write(content[len(streamed) :])
        if rest := self._blocks.finish():
            self._print(SafeMarkdown(rest))
        self._end_line()
        self._shown = False

    def _withdraw(self, event: Mapping[str, Any]) -> None:
        """Says that what was shown of a message does not count."""
        self._texts.pop(str(event.get("message_id", "")), None)
        if rest := self._blocks.finish():
            self._print(Text(clean(rest), style="dim strike"))
        if self._shown:
            reason = str(event.get("reason", "")).replace("_", " ")
            self._say(f"withdrawn: the text above does not count ({reason})", "yellow")
        self._shown = False

    def _status(self, event: Mapping[str, Any]) -> None:
        text = str(event.get("text", ""))
        found = _RECALLED.search(text)
        recalled = event.get("recalled", found[1] if found else None)
        if recalled is not None:
            self._say(f"recalled: {one_line(str(recalled), 20)}", "magenta")
        else:
            self._say(text, "yellow")

    def _say(self, text: str, style: str) -> None:
        self._end_line()
        self._print(Text("· " + one_line(text, max(20, self._console.width * 3)), style=style))

    def _print(self, what: Any) -> None:
        self._console.print(what)

    def _end_line(self) -> None:
        if not self._column_zero:
            self._console.out("", highlight=False)
            self._column_zero = True

    def moving(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What still moves: the growing block's last lines, then what is under way."""
        room = max(2, console.height - 3)
        tail = self._blocks.tail
        if tail.strip():
            lines = console.render_lines(SafeMarkdown(tail), options, pad=False)
            for line in lines[-room:]:
                yield from line
                yield Segment.line()
        yield from console.render(self._under_way(console.width), options)

    def _under_way(self, width: int) -> Text:
        seconds = time.monotonic() - self._began
        running = self._calls.running
        if self.note:
            what = self.note
        elif running:
            more = f" and {len(running) - 1} more" if len(running) > 1 else ""
            what = f"{running[0].tool}{more} is running"
        else:
            what = "working"
        spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(seconds * 10) % 10]
        line = Text(one_line(f"{spinner} {what} {seconds:.0f} s", max(8, width - 1)), style="dim")
        line.no_wrap = True
        return line


class _Moving:
    """The lower part of a screen, as rich draws it."""

    def __init__(self, screen: TurnScreen) -> None:
        self._screen = screen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._screen.moving(console, options)
