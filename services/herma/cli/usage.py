"""`herma usage`: what was used."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from herma.cli.client import ApiClient, find_platform, quoted
from herma.cli.output import Format, Output, say_json, say_table


class GroupingName(StrEnum):
    """By what is summed up."""

    DAY = "day"
    SESSION = "session"
    PROFILE = "profile"
    PRINCIPAL = "principal"


_FIELDS = {"day": "day", "session": "session_id", "profile": "profile", "principal": "principal_id"}


def usage(
    by: Annotated[list[GroupingName] | None, typer.Option(help="By what; by day if none.")] = None,
    tenant: Annotated[bool, typer.Option("--tenant", help="Your whole tenant's.")] = False,
    since: Annotated[str, typer.Option(help="From this time on, as 2026-12-01T00:00:00Z.")] = "",
    until: Annotated[str, typer.Option(help="Up to this time.")] = "",
    output: Output = Format.TEXT,
) -> None:
    """Show turns and tokens that were used."""
    groupings = [one.value for one in by or [GroupingName.DAY]]
    path = f"/v1/usage?of={'tenant' if tenant else 'me'}" + "".join(f"&by={one}" for one in groupings)
    for name, moment in (("since", since), ("until", until)):
        path += f"&{name}={quoted(moment)}" if moment else ""
    found = list(ApiClient(*find_platform()).pages(path))
    if output == Format.JSON:
        say_json(found)
        return
    say_table(
        (*(one.upper() for one in groupings), "TURNS", "INPUT", "CACHED", "OUTPUT", "REASONING"),
        [
            (
                *(one[_FIELDS[name]] for name in groupings),
                str(one["turns"]),
                str(one["usage"]["input_tokens"]),
                str(one["usage"]["cache_read_tokens"]),
                str(one["usage"]["output_tokens"]),
                str(one["usage"]["reasoning_tokens"]),
            )
            for one in found
        ],
    )
