"""What the nouns of the command line have in common: the option `-o`, and how they speak."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from herma.cli.terminal_text import clean, json_text


def _format(value: str) -> str:
    if value not in ("text", "json"):
        raise typer.BadParameter("`text` or `json`")
    return value


Output = Annotated[str, typer.Option("-o", "--output", help="`text` or `json`.", callback=_format)]


def say(text: str) -> None:
    """Writes a line to standard output; text of others is made safe."""
    typer.echo(clean(text))


def say_json(value: Any) -> None:
    """Writes JSON to standard output."""
    typer.echo(json_text(value))
