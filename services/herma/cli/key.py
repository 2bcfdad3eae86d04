"""`herma key`: your API keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from herma.cli.client import ApiClient, find_platform, quoted, segment
from herma.cli.output import Format, Output, moment, say, say_json, say_table

app = typer.Typer(help="API keys.", no_args_is_help=True)


@app.command("create")
def create_key(
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="Scopes; all of yours if none.")] = None,
    principal: Annotated[str, typer.Option(help="Id of whom it is for; yourself if none.")] = "",
    days: Annotated[int, typer.Option(min=0, help="Days until it expires; 0 for never.")] = 0,
    output: Output = Format.TEXT,
) -> None:
    """Make a key with at most your rights; shows it once."""
    body: dict[str, Any] = {"name": name, "scopes": scope or [], "principal_id": principal}
    if days:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    made = ApiClient(*find_platform()).post("/v1/keys", body)
    if output == Format.JSON:
        say_json(made)
    else:
        say(made["secret"])


@app.command("ls")
def list_keys(
    principal: Annotated[str, typer.Option(help="Id of whose keys; yours if none.")] = "",
    output: Output = Format.TEXT,
) -> None:
    """List keys, oldest first; secrets are not kept."""
    found = list(ApiClient(*find_platform()).pages(f"/v1/keys?principal={quoted(principal)}"))
    if output == Format.JSON:
        say_json(found)
        return
    now = datetime.now(UTC)
    say_table(
        ("ID", "PREFIX", "NAME", "SCOPES", "STATE", "CREATED", "USED", "EXPIRES"),
        [
            (
                key["id"],
                key["prefix"],
                key["name"] or "-",
                ",".join(key["scopes"]),
                state_of(key, now),
                moment(key["created_at"]),
                moment(key["last_used_at"]),
                moment(key["expires_at"]),
            )
            for key in found
        ],
    )


@app.command("rotate")
def rotate_key(
    key_id: Annotated[str, typer.Argument(metavar="ID")],
    overlap: Annotated[int, typer.Option(min=0, help="Seconds that the old key goes on working.")] = 3600,
    output: Output = Format.TEXT,
) -> None:
    """Make a key like this one, and let this one work a while longer; shows the new one once."""
    made = ApiClient(*find_platform()).post(
        f"/v1/keys/{segment(key_id)}/rotate", {"overlap_seconds": overlap}
    )
    if output == Format.JSON:
        say_json(made)
    else:
        say(made["secret"])


@app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="ID")], output: Output = Format.TEXT
) -> None:
    """Revoke a key for good. Harmless when repeated."""
    revoked = ApiClient(*find_platform()).delete(f"/v1/keys/{segment(key_id)}")
    if output == Format.JSON:
        say_json(revoked)
    else:
        say(f"revoked {revoked['prefix']}  {revoked['id']}")


def state_of(key: dict[str, Any], now: datetime) -> str:
    """Whether a key works: `active`, `revoked` or `expired`."""
    if key["revoked_at"]:
        return "revoked"
    if key["expires_at"] and datetime.fromisoformat(key["expires_at"]) <= now:
        return "expired"
    return "active"
