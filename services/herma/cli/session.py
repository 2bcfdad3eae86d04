"""`herma session`: your conversations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from herma.cli.client import ApiClient, ApiError, find_platform, segment
from herma.cli.output import Format, Output, age, moment, say, say_json, say_table
from herma.cli.terminal_text import clean, one_line

app = typer.Typer(help="Sessions.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID")]
Full = Annotated[bool, typer.Option("--full", help="Show whole results of calls.")]
Events = Annotated[bool, typer.Option("--events", help="Show the events too.")]


@app.command("create")
def create_session(
    profile: Annotated[str, typer.Option(help="Profile; the tenant's `default` if none.")] = "",
    title: Annotated[str, typer.Option(help="What it is about.")] = "",
    key: Annotated[str, typer.Option(help="Name of your own: the same one is the same session.")] = "",
    output: Output = Format.TEXT,
) -> None:
    """Make a session; shows its id."""
    body = {"profile": profile, "title": title, "key": key}
    made = ApiClient(*find_platform()).post("/v1/sessions", body)
    if output == Format.JSON:
        say_json(made)
    else:
        say(made["id"])


@app.command("ls")
def list_sessions(
    limit: Annotated[int, typer.Option(min=0, help="At most so many; 0 for all.")] = 0,
    output: Output = Format.TEXT,
) -> None:
    """List your sessions, newest first."""
    found = list(ApiClient(*find_platform()).pages("/v1/sessions", limit))
    if output == Format.JSON:
        say_json(found)
        return
    now = datetime.now(UTC)
    say_table(
        ("ID", "PROFILE", "STATE", "AGE", "TITLE"),
        [
            (
                session["id"],
                session["profile"],
                session["state"],
                age(session["created_at"], now),
                one_line(session["title"] or session["opening"], 60) or "-",
            )
            for session in found
        ],
    )


@app.command("show")
def show_session(
    session_id: Id, full: Full = False, events: Events = False, output: Output = Format.TEXT
) -> None:
    """Show a session's transcript, calls folded."""
    client = ApiClient(*find_platform())
    path = f"/v1/sessions/{segment(session_id)}"
    session = client.get(path)
    messages = list(client.pages(f"{path}/messages"))
    happened = client.history(session["id"], session["last_seq"]) if events else []
    if output == Format.JSON:
        shown = {"session": session, "messages": messages}
        say_json({**shown, "events": happened} if events else shown)
        return
    say(f"{session['id']}  {session['profile']}  {session['state']}  {moment(session['created_at'])}")
    if session["title"]:
        say(one_line(session["title"]))
    for text in transcript(messages, full):
        say(text)
    if happened:
        say("")
        say_table(
            ("SEQ", "EVENT", "TURN", "AT"),
            [(str(e["seq"]), e["kind"], e["turn_id"], moment(e["at"])) for e in happened],
        )


@app.command("rm")
def remove_sessions(
    session_ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Delete sessions with everything in them, for good. Harmless when repeated."""
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("there is nobody to ask: add --yes")
        number = "1 session" if len(session_ids) == 1 else f"{len(session_ids)} sessions"
        typer.confirm(f"Delete {number} with everything in them?", abort=True, err=True)
    client = ApiClient(*find_platform())
    outcomes = [_remove(client, session_id, output) for session_id in session_ids]
    if output == Format.JSON:
        say_json(outcomes)
    if not all(outcome["deleted"] for outcome in outcomes):
        raise typer.Exit(1)


def _remove(client: ApiClient, session_id: str, output: Format) -> dict[str, Any]:
    try:
        client.delete(f"/v1/sessions/{segment(session_id)}")
    except ApiError as error:
        if output == Format.TEXT:
            typer.echo(f"herma: {one_line(session_id)}: {error.message}", err=True)
        return {"id": session_id, "deleted": False, "reason": error.reason, "error": error.message}
    if output == Format.TEXT:
        say(f"deleted {session_id}")
    return {"id": session_id, "deleted": True}


def transcript(messages: list[dict[str, Any]], full: bool = False) -> Iterator[str]:
    """A transcript for people: each call on one line with its result, unless `full`."""
    results = {message["call_id"]: message for message in messages if message["role"] == "tool"}
    for message in messages:
        if message["role"] == "tool":
            continue
        yield f"\n{message['role']}  {moment(message['created_at'])}"
        if message["content"].strip():
            yield clean(message["content"]).rstrip()
        for call in message["calls"]:
            yield f"  [{one_line(call['tool'])}] {one_line(call['arguments'], 0 if full else 100)}"
            yield from _result(call, results.get(call["id"]), full)


def _result(call: dict[str, Any], result: dict[str, Any] | None, full: bool) -> Iterator[str]:
    if result is None:
        yield f"    {call['state']}"
        return
    lines = clean(result["content"]).rstrip().split("\n")
    if full:
        yield from (f"    {text}" for text in lines)
        return
    more = f"  (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    yield f"    {call['state']}: {one_line(lines[0], 100)}{more}"
