"""`herma turn …` and `herma trace`: what became of a turn, and where its time went."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from herma.cli.client import ApiClient, ApiError, find_platform
from herma.cli.completion import turn_ids
from herma.cli.output import Format, Output, say, say_json
from herma.cli.span_file import read_trace
from herma.cli.span_tree import TurnTrace, attempts, build
from herma.cli.terminal_text import clean, one_line
from herma.cli.trace_view import json_of, text_of

# Services write their spans every half second: how long to wait for the last ones of a turn.
_WRITTEN_WITHIN = 3.0

_PIPE_WIDTH = 200

app = typer.Typer(help="Turns.", no_args_is_help=True)

TurnId = Annotated[str, typer.Argument(metavar="TURN", help="Id of a turn.", autocompletion=turn_ids)]


@app.command("show")
def show(turn_id: TurnId, output: Output = Format.TEXT) -> None:
    """Show a turn: its state, attempts, usage, calls, times and trace."""
    turn = _read(ApiClient(*find_platform()), turn_id)
    if output == Format.JSON:
        say_json(turn)
        return
    for line in _lines(turn):
        say(line)


@app.command("interrupt")
def interrupt(turn_id: TurnId, output: Output = Format.TEXT) -> None:
    """Ask a running turn to stop, or cancel a queued one; harmless when it has ended."""
    turn = ApiClient(*find_platform()).post(f"/v1/turns/{one_id(turn_id)}/interrupt", {})
    if output == Format.JSON:
        say_json(turn)
    elif turn["ended_at"]:
        say(f"{turn['id']}  {turn['state']} ({turn['exit_reason']})")
    else:
        say(f"{turn['id']}  was asked to stop")


def trace(turn_id: TurnId, output: Output = Format.TEXT) -> None:
    """Draw a turn's spans as a tree, mark its critical path, and say where the time went."""
    turn = _read(ApiClient(*find_platform()), turn_id)
    if not turn["trace_id"]:
        raise ApiError("the turn has no trace: it was submitted without one")
    found = _find(turn)
    if output == Format.JSON:
        say_json(
            {
                "turn_id": turn["id"],
                "state": turn["state"],
                "trace_id": turn["trace_id"],
                **json_of(found),
            }
        )
        return
    reason = f" ({turn['exit_reason']})" if turn["exit_reason"] else ""
    say(f"turn {turn['id']}  {turn['state']}{reason}  trace {turn['trace_id']}")
    say("")
    # A pipe has no width, whatever COLUMNS says of a terminal somewhere.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH
    for line in text_of(found, width):
        say(line)


def one_id(text: str) -> str:
    """An id that may stand in a path.

    Raises:
        BadParameter: for what cannot be one.
    """
    if not text or not all(c.isascii() and (c.isalnum() or c == "-") for c in text):
        raise typer.BadParameter("not an id")
    return text


def _read(client: ApiClient, turn_id: str) -> dict[str, Any]:
    return client.get(f"/v1/turns/{one_id(turn_id)}")


def _find(turn: dict[str, Any]) -> TurnTrace:
    """The turn's tree, as whole as it gets within a few seconds.

    Raises:
        ApiError: when nothing of it is here.
    """
    folder = Path(os.environ.get("HERMA_DATA_DIR", ".herma"))
    created = int(datetime.fromisoformat(turn["created_at"]).timestamp() * 1e9)
    until = time.monotonic() + _WRITTEN_WITHIN
    while True:
        found = build(read_trace(folder, turn["trace_id"], created), turn["id"])
        if (found is not None and _is_whole(found, turn)) or time.monotonic() >= until:
            break
        time.sleep(0.2)  # other processes write the file, and say nothing of it
    if found is None:
        raise ApiError(
            f"no span of this turn is in {folder / 'spans.jsonl'}: spans are kept on the machine of "
            "`herma up`, the newest 128 MiB of them; a platform that exports OTLP has them in its backend"
        )
    return found


def _is_whole(found: TurnTrace, turn: dict[str, Any]) -> bool:
    """Whether the ended turn's last attempt is there, with nothing missing."""
    if not turn["ended_at"]:
        return True
    last = max(
        (int(str(n.span.attributes.get("herma.turn.attempt", 0))) for n in attempts(found)), default=0
    )
    return last >= turn["attempt"] and not found.missing


def _lines(turn: dict[str, Any]) -> Iterator[str]:
    usage = turn["usage"]
    yield f"turn      {turn['id']}"
    yield f"session   {turn['session_id']}"
    yield f"kind      {turn['kind']}"
    yield f"state     {turn['state']}" + (f" ({turn['exit_reason']})" if turn["exit_reason"] else "")
    if turn["error"]:
        yield f"error     {one_line(turn['error'], 400)}"
    yield f"attempts  {turn['attempt']}"
    yield (
        f"usage     {usage['input_tokens']} tokens in ({usage['cache_read_tokens']} cached), "
        f"{usage['output_tokens']} out ({usage['reasoning_tokens']} reasoning)"
    )
    yield f"created   {turn['created_at']}"
    for name in ("started", "ended"):
        if turn[f"{name}_at"]:
            since = datetime.fromisoformat(turn[f"{name}_at"]) - datetime.fromisoformat(
                turn["created_at"]
            )
            yield f"{name:9} {turn[f'{name}_at']}  (+{since.total_seconds():.3f} s)"
    yield f"trace     {turn['trace_id'] or 'none'}"
    for call in turn["calls"]:
        state = clean(call["state"]) + (", error" if call["is_error"] else "")
        what = f"{one_line(call['tool'], 40)} [{state}] {one_line(call['arguments'], 100)}"
        yield f"call      {call['id']}  {what}"
