"""What commands print: lines and tables for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.cells import cell_len

from herma.cli.terminal_text import clean, json_text, one_line


class Format(StrEnum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[Format, typer.Option("-o", "--output", help="How to print.")]


def say(text: str) -> None:
    """Prints a line now, not when a pipe's buffer is full; text of others is made safe."""
    typer.echo(clean(text))
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """Prints a JSON document."""
    typer.echo(json_text(value))
    sys.stdout.flush()


def say_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints aligned columns, each as wide as its widest cell and never cut; headers only with rows."""
    if not rows:
        return
    lines = [list(headers), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(cell_len(row[column]) for row in lines) for column in range(len(headers))]
    for row in lines:
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())


def moment(at: str | None) -> str:
    """A time of the API, to the second and in UTC; `-` for none."""
    return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M:%S}" if at else "-"


def age(at: str, now: datetime) -> str:
    """How long ago a time of the API was: `12s`, `5m`, `3h`, `40d`."""
    seconds = max(0, int((now - datetime.fromisoformat(at)).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
