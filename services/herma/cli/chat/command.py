"""`herma chat` as a command: which conversation, and whether a person or a pipe speaks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from herma.cli.chat.calls import CallLog, expanded
from herma.cli.chat.conversation import Conversation, Outcome
from herma.cli.chat.interrupt_key import InterruptKey
from herma.cli.chat.prompt_line import PromptLine, history_file
from herma.cli.chat.repl import COMMANDS, Repl
from herma.cli.chat.screen import TurnScreen
from herma.cli.client import ApiClient, find_platform
from herma.cli.completion import session_ids
from herma.cli.output import Format, Output, say, say_json
from herma.cli.terminal_text import clean, one_line

_DID_NOT_COMPLETE = 3


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
        raise typer.Exit(_ask(conversation, message, verbose, output))


def _talk(client: ApiClient, conversation: Conversation, profile: str, verbose: bool) -> None:
    folder = Path(os.environ.get("HERMA_DATA_DIR", ".herma"))
    Repl(
        Console(highlight=False),
        conversation,
        lambda: Conversation(client, profile=profile),
        PromptLine(history_file(folder), list(COMMANDS)),
        verbose,
    ).run()


def _ask(conversation: Conversation, message: str, verbose: bool, output: str) -> int:
    """One message; the exit code."""
    calls = CallLog()
    streams = output == Format.TEXT and sys.stdout.isatty()
    screen = TurnScreen(Console(highlight=False), calls, verbose) if streams else None

    def take(event: Mapping[str, Any]) -> None:
        call = calls.take(event)
        if call is not None and event["kind"] == "call.completed" and output == Format.TEXT:
            typer.echo(call.summary(100), err=True)
            for line in expanded(call, 2_000) if verbose else ():
                typer.echo("  " + line, err=True)
        elif event["kind"] == "status" and output == Format.TEXT:
            typer.echo(one_line(str(event.get("text", "")), 200), err=True)

    try:
        if screen is not None:
            shown = screen

            def pressed() -> None:
                shown.interrupting()
                conversation.interrupt()

            with shown, InterruptKey(pressed):
                outcome = conversation.say(message, shown.take, shown.lost)
        else:
            with InterruptKey(conversation.interrupt):
                outcome = conversation.say(message, take)
    except KeyboardInterrupt:
        typer.echo("left; the turn was asked to stop", err=True)
        return _DID_NOT_COMPLETE
    return _report(conversation, outcome, calls, output, shown=screen is not None)


def _report(
    conversation: Conversation, outcome: Outcome, calls: CallLog, output: str, *, shown: bool
) -> int:
    done = outcome.state == "completed"
    if output == Format.JSON:
        say_json(
            {
                "session_id": conversation.session_id,
                "turn_id": outcome.turn_id,
                "state": outcome.state,
                "exit_reason": outcome.exit_reason,
                "error": outcome.error,
                "text": outcome.text,
                "usage": outcome.usage,
                "calls": [
                    {
                        "id": call.id,
                        "tool": call.tool,
                        "arguments": call.arguments,
                        "state": call.state,
                        "is_error": call.is_error,
                        "seconds": call.seconds,
                        "output": call.text,
                    }
                    for call in calls.all.values()
                ],
            }
        )
    elif done and not shown:
        say(outcome.text)
    elif not done:
        typer.echo(clean(f"The turn ended as {outcome.exit_reason}. {outcome.error}"), err=True)
    return 0 if done else _DID_NOT_COMPLETE
