"""`herma tenant`: tenants."""

from __future__ import annotations

import typer

from herma.cli.client import ApiClient, find_platform
from herma.cli.output import Format, Output, say, say_json

app = typer.Typer(help="Tenants.", no_args_is_help=True)


@app.command("create")
def create_tenant(name: str, output: Output = Format.TEXT) -> None:
    """Make a tenant; shows its owner's key once. Needs the operator's key."""
    made = ApiClient(*find_platform()).post("/v1/tenants", {"name": name})
    if output == Format.JSON:
        say_json(made)
    else:
        say(f"{made['tenant']['name']}  {made['tenant']['id']}\n{made['key']}")
