"""Shell completion: the scripts, and the ids that can be offered.

Typer makes the scripts and answers the shell (`_HERMA_COMPLETE`).  Ids come from what is cheap: the
newest sessions of the platform within a second, the newest turns out of the spans.  A shell must never
wait for long nor see an error because somebody pressed Tab.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import httpx
import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not in its __all__

from herma.cli.client import ApiError, find_platform
from herma.cli.span_file import recent_turns
from herma.cli.terminal_text import one_line

_SECONDS = 1.0


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Whose script to print.")]) -> None:
    """Print the completion script of a shell: `eval "$(herma completion bash)"`."""
    typer.echo(
        get_completion_script(prog_name="herma", complete_var="_HERMA_COMPLETE", shell=shell.value)
    )


def turn_ids(incomplete: str) -> list[str]:
    """Turns that ran lately on this machine."""
    folder = Path(os.environ.get("HERMA_DATA_DIR", ".herma"))
    return [turn for turn in recent_turns(folder) if turn.startswith(incomplete)]


def session_ids(incomplete: str) -> list[tuple[str, str]]:
    """The newest sessions, with their titles."""
    try:
        url, key = find_platform()
        response = httpx.get(
            f"{url}/v1/sessions",
            params={"page_size": 50},
            headers={"Authorization": f"Bearer {key}"},
            timeout=_SECONDS,
        )
        items = response.raise_for_status().json()["items"]
    except (ApiError, OSError, httpx.HTTPError, ValueError, KeyError):
        return []
    return [
        (item["id"], one_line(item["title"] or item["profile"], 40))
        for item in items
        if item["id"].startswith(incomplete)
    ]
