"""`herma profile`: the agents of your tenant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from herma.cli.client import ApiClient, ApiError, find_platform, segment
from herma.cli.output import Format, Output, moment, say, say_json, say_table
from herma.cli.profile_file import ProfileDocument, profile_text, read_profiles
from herma.cli.terminal_text import one_line

app = typer.Typer(help="Profiles.", no_args_is_help=True)


@app.command("ls")
def list_profiles(output: Output = Format.TEXT) -> None:
    """List your tenant's profiles."""
    found = list(ApiClient(*find_platform()).pages("/v1/profiles"))
    if output == Format.JSON:
        say_json(found)
        return
    say_table(
        ("NAME", "VERSION", "MODEL", "TOOLS", "CHANGED", "DESCRIPTION"),
        [
            (
                profile["name"],
                str(profile["version"]),
                profile["spec"]["model"] or "-",
                _tools(profile["spec"]["tools"]),
                moment(profile["created_at"]),
                one_line(profile["spec"]["description"], 60) or "-",
            )
            for profile in found
        ],
    )


def _tools(names: list[str] | None) -> str:
    return "all" if names is None else ",".join(names) or "none"


@app.command("show")
def show_profile(
    name: str,
    version: Annotated[int, typer.Option(min=0, help="0 for the newest.")] = 0,
    output: Output = Format.TEXT,
) -> None:
    """Show a profile, as a file that `apply` takes."""
    path = f"/v1/profiles/{segment(name)}?version={version}"
    found = ApiClient(*find_platform()).get(path)
    if output == Format.JSON:
        say_json(found)
        return
    say(f"# version {found['version']}, made {moment(found['created_at'])}")
    say(profile_text(found["name"], found["spec"]).rstrip())


@app.command("apply")
def apply_profiles(
    files: Annotated[
        list[str], typer.Option("-f", "--file", help="YAML or JSON, several documents; `-` is stdin.")
    ],
    output: Output = Format.TEXT,
) -> None:
    """Make or change profiles; those that say the same already stay. A bad file changes nothing."""
    documents = read_profiles([(name, _read(name)) for name in files])
    client = ApiClient(*find_platform())
    outcomes: list[dict[str, Any]] = []
    for document in documents:
        outcomes.append(_apply(client, document, outcomes))
        if output == Format.TEXT:
            newest = outcomes[-1]
            say(f"{newest['outcome']:9}  {newest['name']}  version {newest['version']}")
    if output == Format.JSON:
        say_json(outcomes)


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{name}: {error.strerror}") from error


def _apply(client: ApiClient, document: ProfileDocument, before: list[dict[str, Any]]) -> dict[str, Any]:
    headers = {"If-Match": f'"{document.version}"'} if document.version else {}
    try:
        applied = client.put(f"/v1/profiles/{document.name}", document.spec, headers)
    except ApiError as error:
        done = ", ".join(f"{outcome['name']} ({outcome['outcome']})" for outcome in before)
        rest = f"; done before it: {done}" if done else "; nothing was changed"
        raise ApiError(
            f"{document.place}: profile {document.name!r}: {error.message}{rest}", reason=error.reason
        ) from error
    return {key: applied[key] for key in ("name", "version", "outcome")}
