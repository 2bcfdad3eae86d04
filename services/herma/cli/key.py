"""`herma key`: your API keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from herma.cli.client import ApiClient, find_platform, segment
from herma.cli.output import Format, Output, moment, say, say_json, say_table

app = typer.Typer(help="API keys.", no_args_is_help=True)


@app.command("create")
def create_key(
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="Scopes; all of yours if none.")] = None,
    output: Output = Format.TEXT,
) -> None:
    """Make a key with at most your rights; shows it once."""
    made = ApiClient(*find_platform()).post("/v1/keys", {"name": name, "scopes": scope or []})
    if output == Format.JSON:
        say_json(made)
    else:
        say(made["secret"])


@app.command("ls")
def list_keys(output: Output = Format.TEXT) -> None:
    """List your keys, oldest first; secrets are not kept."""
    found = list(ApiClient(*find_platform()).pages("/v1/keys"))
    if output == Format.JSON:
        say_json(found)
        return
    now = datetime.now(UTC)
    say_table(
        ("ID", "PREFIX", "NAME", "SCOPES", "STATE", "CREATED", "EXPIRES"),
        [
            (
                key["id"],
                key["prefix"],
                key["name"] or "-",
                ",".join(key["scopes"]),
                state_of(key, now),
                moment(key["created_at"]),
                moment(key["expires_at"]),
            )
            for key in found
        ],
    )


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
