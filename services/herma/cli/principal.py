"""`herma principal`: who acts for your tenant."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from herma.cli.client import ApiClient, find_platform, segment
from herma.cli.output import Format, Output, moment, say, say_json, say_table

app = typer.Typer(help="Users and service accounts of your tenant.", no_args_is_help=True)


class RoleName(StrEnum):
    """A role."""

    OWNER = "owner"
    ADMIN = "admin"
    OPERATOR = "operator"
    MEMBER = "member"
    VIEWER = "viewer"


_Id = Annotated[str, typer.Argument(metavar="ID")]


@app.command("ls")
def list_principals(output: Output = Format.TEXT) -> None:
    """List principals, oldest first."""
    found = list(ApiClient(*find_platform()).pages("/v1/principals"))
    if output == Format.JSON:
        say_json(found)
        return
    say_table(
        ("ID", "SUBJECT", "NAME", "KIND", "ROLE", "STATE", "ISSUER", "CREATED"),
        [
            (
                principal["id"],
                principal["subject"],
                principal["name"] or "-",
                principal["kind"],
                principal["role"],
                "disabled" if principal["disabled_at"] else "active",
                principal["issuer"],
                moment(principal["created_at"]),
            )
            for principal in found
        ],
    )


@app.command("add")
def add_principal(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="1 to 63 of a-z, 0-9 and -.")],
    role: Annotated[RoleName, typer.Option(help="At most your own.")] = RoleName.MEMBER,
    name: Annotated[str, typer.Option(help="For people.")] = "",
    output: Output = Format.TEXT,
) -> None:
    """Make a service account; make it a key with `herma key create --principal ID`."""
    body = {"subject": subject, "role": role.value, "name": name}
    _show(ApiClient(*find_platform()).post("/v1/principals", body), output)


@app.command("set-role")
def set_role(principal_id: _Id, role: RoleName, output: Output = Format.TEXT) -> None:
    """Give a principal another role. Harmless when repeated."""
    _change(principal_id, {"role": role.value}, output)


@app.command("disable")
def disable(principal_id: _Id, output: Output = Format.TEXT) -> None:
    """Take all rights from a principal: its keys and tokens stop working. Harmless when repeated."""
    _change(principal_id, {"disabled": True}, output)


@app.command("enable")
def enable(principal_id: _Id, output: Output = Format.TEXT) -> None:
    """Let a principal act again. Harmless when repeated."""
    _change(principal_id, {"disabled": False}, output)


def _change(principal_id: str, body: dict[str, Any], output: Format) -> None:
    path = f"/v1/principals/{segment(principal_id)}"
    _show(ApiClient(*find_platform()).patch(path, body, {}), output)


def _show(principal: dict[str, Any], output: Format) -> None:
    if output == Format.JSON:
        say_json(principal)
        return
    state = "disabled" if principal["disabled_at"] else "active"
    say(f"{principal['subject']}  {principal['id']}  {principal['role']}  {state}")
