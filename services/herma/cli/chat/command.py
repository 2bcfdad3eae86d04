"""`herma chat` as a command: which conversation, and whether a person or a pipe speaks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from herma.cli.chat.conversation import Conversation
from herma.cli.client import ApiClient, find_platform
from herma.cli.completion import session_ids
from herma.cli.output import Format, Output


def chat(
    message: Annotated[str, typer.Argument(help="What to say; nothing for a conversation.")] = "",
    session: Annotated[str, typer.Option(help="Session to go on with.", autocompletion=session_ids)] = "",
    go_on: Annotated[bool, typer.Option("--continue", help="Go on with the newest session.")] = False,
    profile: Annotated[str, typer.Option(help="Profile of a new session.")] = "",
    verbose: Annotated[bool, typer.Option(help="Show all output of tool calls.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Talk with an agent; with a message or from a pipe, ask once and print the answer alone."""
    if (bool(session) + go_on + bool(profile)) > 1:
        raise typer.BadParameter("only one of --session, --continue and --profile")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    talks = not message and sys.stdin.isatty() and sys.stdout.isatty()
    if talks and output == Format.JSON:
        raise typer.BadParameter("-o json answers one message: give one, or pipe it in")
    if not talks and message in ("", "-"):
        message = sys.stdin.read()
        if not message.strip():
            raise typer.BadParameter("there is nothing to say")
    client = ApiClient(*find_platform())
    conversation = Conversation.newest(client) if go_on else Conversation(client, session, profile)
    if talks:
        _talk(client, conversation, profile, verbose)
    else:
        from herma.cli.chat.ask import ask

        raise typer.Exit(ask(conversation, message, verbose, output))


def _talk(client: ApiClient, conversation: Conversation, profile: str, verbose: bool) -> None:
    # Loaded when somebody talks: every other command, and each Tab, would wait for them.
    from rich.console import Console

    from herma.cli.chat.prompt_line import PromptLine, history_file
    from herma.cli.chat.repl import COMMANDS, Repl

    folder = Path(os.environ.get("HERMA_DATA_DIR", ".herma"))
    Repl(
        Console(highlight=False),
        conversation,
        lambda: Conversation(client, profile=profile),
        PromptLine(history_file(folder), list(COMMANDS)),
        verbose,
    ).run()
