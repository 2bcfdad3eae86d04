"""`herma audit`: what was done to your tenant, and by whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from herma.cli.client import ApiClient, ApiError, find_platform, quoted
from herma.cli.output import Format, Output, moment, say, say_json, say_table
from herma.session_authority.anchoring import read_anchors
from herma.session_authority.domain.audit import Anchor, ChainCheck, record_of_line

app = typer.Typer(help="The audit log of your tenant.", no_args_is_help=True)


@app.command("ls")
def list_records(
    action: Annotated[str, typer.Option(help="Only this action, as `key.created`.")] = "",
    principal: Annotated[str, typer.Option(help="Only what this principal did.")] = "",
    target: Annotated[str, typer.Option(help="Only what was done to this id.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="How many at most; 0 for all.")] = 50,
    output: Output = Format.TEXT,
) -> None:
    """List what was done, newest first."""
    path = f"/v1/audit?action={quoted(action)}&principal={quoted(principal)}&target={quoted(target)}"
    found = list(ApiClient(*find_platform()).pages(path, limit))
    if output == Format.JSON:
        say_json(found)
        return
    say_table(
        ("SEQ", "AT", "ACTION", "OUTCOME", "PRINCIPAL", "TARGET", "DETAILS"),
        [
            (
                str(record["seq"]),
                moment(record["at"]),
                record["action"],
                record["outcome"],
                record["principal_id"] or "-",
                record["target"],
                json.dumps(record["details"], ensure_ascii=False),
            )
            for record in found
        ],
    )


@app.command("export")
def export_records() -> None:
    """Print the whole log, oldest first, a JSON object a line: `herma audit verify FILE` checks it."""
    for record in ApiClient(*find_platform()).pages("/v1/audit?order=oldest"):
        say(json.dumps(record))


@app.command("verify")
def verify_log(
    file: Annotated[
        Path | None,
        typer.Argument(exists=True, dir_okay=False, help="An export; else the platform's log."),
    ] = None,
    anchors: Annotated[
        list[Path] | None,
        typer.Option(exists=True, help="File or folder of anchors to compare an export with."),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Check that nothing was changed, taken out or cut off. Ends with status 1 if something was."""
    if file is None:
        verdict = ApiClient(*find_platform()).get("/v1/audit/verification")
    else:
        verdict = _verdict(file, anchors or [])
    if output == Format.JSON:
        say_json(verdict)
    else:
        for finding in verdict["findings"]:
            say(f"record {finding['seq']} {finding['text']}")
        state = "holds" if verdict["holds"] else "does not hold"
        say(f"{state}: {verdict['records']} records, {verdict['anchors']} anchors compared")
    if not verdict["holds"]:
        raise typer.Exit(1)


def _verdict(file: Path, anchors: list[Path]) -> dict[str, Any]:
    try:
        check: ChainCheck | None = None
        for line in _lines(file):
            record = record_of_line(line)
            if check is None:
                check = ChainCheck(record.tenant_id, _anchors(anchors, record.tenant_id))
            check.take(record)
    except ValueError as error:
        raise ApiError(f"{file}: {error}") from error
    if check is None:
        raise ApiError(f"{file} has no records")
    verdict = check.verdict()
    return {
        "holds": verdict.holds,
        "records": verdict.records,
        "anchors": verdict.anchors,
        "findings": [{"seq": found.seq, "text": found.text} for found in verdict.findings],
    }


def _anchors(places: list[Path], tenant_id: UUID) -> Iterator[Anchor]:
    for place in places:
        for file in sorted(place.glob("*.jsonl")) if place.is_dir() else (place,):
            yield from read_anchors(file, tenant_id)


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield line
