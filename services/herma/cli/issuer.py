"""`herma issuer`: OpenID Connect issuers whose tokens your tenant accepts."""

from __future__ import annotations

from typing import Annotated

import typer

from herma.cli.client import ApiClient, find_platform, segment
from herma.cli.output import Format, Output, moment, say, say_json, say_table
from herma.cli.principal import RoleName

app = typer.Typer(help="OpenID Connect issuers that your tenant accepts.", no_args_is_help=True)


@app.command("ls")
def list_issuers(output: Output = Format.TEXT) -> None:
    """List issuers, oldest first."""
    found = list(ApiClient(*find_platform()).pages("/v1/issuers"))
    if output == Format.JSON:
        say_json(found)
        return
    say_table(
        ("ID", "ISSUER", "AUDIENCE", "ALGORITHMS", "GROUPS", "DEFAULT", "CREATED"),
        [
            (
                issuer["id"],
                issuer["issuer"],
                issuer["audience"],
                ",".join(issuer["algorithms"]),
                " ".join(f"{group}={role}" for group, role in sorted(issuer["roles"].items())) or "-",
                issuer["default_role"] or "-",
                moment(issuer["created_at"]),
            )
            for issuer in found
        ],
    )


@app.command("add")
def add_issuer(
    issuer: Annotated[str, typer.Argument(metavar="ISSUER", help="As in the claim `iss`.")],
    audience: Annotated[str, typer.Option(help="As in the claim `aud`.")],
    default_role: Annotated[
        RoleName | None, typer.Option(help="Of who is in no mapped group; they are refused if none.")
    ] = None,
    role_claim: Annotated[
        str, typer.Option(help="The claim with the groups; a dot leads into an object.")
    ] = "",
    role: Annotated[
        list[str] | None, typer.Option(metavar="GROUP=ROLE", help="The role of a group.")
    ] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Of signatures; RS256 and ES256 if none.")
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Accept an issuer's tokens for an audience."""
    body = {
        "issuer": issuer,
        "audience": audience,
        "algorithms": algorithm or [],
        "role_claim": role_claim,
        "roles": dict(_pair(text) for text in role or []),
        "default_role": default_role.value if default_role else None,
    }
    made = ApiClient(*find_platform()).post("/v1/issuers", body)
    if output == Format.JSON:
        say_json(made)
    else:
        say(f"{made['issuer']}  {made['id']}")


@app.command("rm")
def remove_issuer(issuer_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Accept none of its tokens any more; its principals stay. Harmless when repeated."""
    ApiClient(*find_platform()).delete(f"/v1/issuers/{segment(issuer_id)}")
    say(f"removed {issuer_id}")


def _pair(text: str) -> tuple[str, str]:
    group, mark, role = text.rpartition("=")
    if not mark or not group or role not in list(RoleName):
        raise typer.BadParameter(f"{text!r} is not GROUP=ROLE", param_hint="--role")
    return group, role
