"""`herma grant`: rights of single principals on profiles."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from herma.cli.client import ApiClient, find_platform, quoted, segment
from herma.cli.output import Format, Output, moment, say, say_json, say_table

app = typer.Typer(help="Rights of principals on profiles.", no_args_is_help=True)


class RightName(StrEnum):
    """A right on a profile."""

    USE = "use"
    EDIT = "edit"
    APPROVE = "approve"


@app.command("ls")
def list_grants(
    principal: Annotated[str, typer.Option(help="Id of whose; all if none.")] = "",
    profile: Annotated[str, typer.Option(help="On which profile; all if none.")] = "",
    output: Output = Format.TEXT,
) -> None:
    """List grants, oldest first."""
    path = f"/v1/grants?principal={quoted(principal)}&profile={quoted(profile)}"
    found = list(ApiClient(*find_platform()).pages(path))
    if output == Format.JSON:
        say_json(found)
        return
    say_table(
        ("ID", "PRINCIPAL", "PROFILE", "RIGHT", "CREATED"),
        [
            (
                grant["id"],
                grant["principal_id"],
                grant["profile"],
                grant["right"],
                moment(grant["created_at"]),
            )
            for grant in found
        ],
    )


@app.command("add")
def add_grant(
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Its id.")],
    profile: str,
    right: RightName = RightName.USE,
    output: Output = Format.TEXT,
) -> None:
    """Give a principal a right on a profile. Harmless when repeated."""
    made = ApiClient(*find_platform()).post(
        "/v1/grants", {"principal_id": principal, "profile": profile, "right": right.value}
    )
    if output == Format.JSON:
        say_json(made)
    else:
        say(f"{made['id']}  {made['right']} {made['profile']}")


@app.command("rm")
def remove_grant(grant_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Take a grant back. Harmless when repeated."""
    ApiClient(*find_platform()).delete(f"/v1/grants/{segment(grant_id)}")
    say(f"removed {grant_id}")
