"""`herma doctor` as a command."""

from __future__ import annotations

import os
import sys

import typer

from herma.cli.doctor.examine import examine
from herma.cli.doctor.finding import Finding, Level
from herma.cli.doctor.scene import Scene
from herma.cli.output import Format, Output, say, say_json
from herma.local.settings import UpSettings


def doctor(output: Output = Format.TEXT) -> None:
    """Check this machine and the platform; say what to do. Exits 1 when there is a problem."""
    findings = []
    for finding in examine(Scene.of(UpSettings())):
        findings.append(finding)
        if output == Format.TEXT:
            _show(finding)
    if output == Format.JSON:
        say_json(
            [{"name": f.name, "level": f.level.value, "text": f.text, "fix": f.fix} for f in findings]
        )
    elif not any(finding.level is Level.PROBLEM for finding in findings):
        say("no problems found")
    sys.stdout.flush()
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    colours = {
        Level.OK: typer.colors.GREEN,
        Level.NOTE: typer.colors.YELLOW,
        Level.PROBLEM: typer.colors.RED,
    }
    mark = f"{finding.level.value:8}"
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        mark = typer.style(mark, fg=colours[finding.level])
    typer.echo(f"{mark} {finding.name:16} ", nl=False)
    say(finding.text)
    if finding.fix:
        say(f"{'':26}→ {finding.fix}")
