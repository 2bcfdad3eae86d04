"""`herma tenant`: tenants."""

from __future__ import annotations

import typer

from herma.cli.client import ApiClient, find_platform
from herma.cli.output import Format, Output, moment, say, say_json, say_table

app = typer.Typer(help="Tenants, for the operator.", no_args_is_help=True)


@app.command("create")
def create_tenant(name: str, output: Output = Format.TEXT) -> None:
    """Make a tenant; shows its owner's key once. Needs the operator's key."""
    made = ApiClient(*find_platform()).post("/v1/tenants", {"name": name})
    if output == Format.JSON:
        say_json(made)
    else:
        say(f"{made['tenant']['name']}  {made['tenant']['id']}\n{made['key']}")


@app.command("ls")
def list_tenants(output: Output = Format.TEXT) -> None:
    """List the tenants of the installation. Needs the operator's key."""
    found = list(ApiClient(*find_platform()).pages("/v1/tenants"))
    if output == Format.JSON:
        say_json(found)
        return
    say_table(
        ("NAME", "ID", "CREATED"),
        [(tenant["name"], tenant["id"], moment(tenant["created_at"])) for tenant in found],
    )
