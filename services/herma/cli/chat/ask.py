"""One question and its answer: from a pipe, or from a terminal without a conversation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

from herma.cli.chat.calls import CallLog, expanded
from herma.cli.chat.conversation import Conversation, Outcome
from herma.cli.chat.interrupt_key import InterruptKey
from herma.cli.chat.screen import TurnScreen
from herma.cli.output import Format, say, say_json
from herma.cli.terminal_text import clean, one_line

_DID_NOT_COMPLETE = 3


def ask(conversation: Conversation, message: str, verbose: bool, output: str) -> int:
    """Sends one message and prints its answer alone; calls go to standard error. The exit code."""
    calls = CallLog()
    streams = output == Format.TEXT and sys.stdout.isatty()
    try:
        if streams:
            outcome = _streamed(conversation, message, calls, verbose)
        else:
            with InterruptKey(conversation.interrupt):
                outcome = conversation.say(
                    message, lambda event: _tell(event, calls, verbose, quiet=output == Format.JSON)
                )
    except KeyboardInterrupt:
        typer.echo("left; the turn was asked to stop", err=True)
        return _DID_NOT_COMPLETE
    return _report(conversation, outcome, calls, output, shown=streams)


def _streamed(conversation: Conversation, message: str, calls: CallLog, verbose: bool) -> Outcome:
    screen = TurnScreen(Console(highlight=False), calls, verbose)

    def pressed() -> None:
        screen.interrupting()
        conversation.interrupt()

    with screen, InterruptKey(pressed):
        return conversation.say(message, screen.take, screen.lost)


def _tell(event: Mapping[str, Any], calls: CallLog, verbose: bool, *, quiet: bool) -> None:
    """Keeps an event, and says on standard error what is worth it."""
    call = calls.take(event)
    if quiet:
        return
    if call is not None and event["kind"] == "call.completed":
        typer.echo(call.summary(100), err=True)
        for line in expanded(call, 2_000) if verbose else ():
            typer.echo("  " + line, err=True)
    elif event["kind"] == "status":
        typer.echo(one_line(str(event.get("text", "")), 200), err=True)


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
