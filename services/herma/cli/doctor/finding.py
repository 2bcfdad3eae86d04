"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """`problem`: something does not work, or will not.  `note`: worth knowing."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.  `fix` says what to do, and is empty when nothing is to be done."""

    name: str
    level: Level
    text: str
    fix: str = ""


def ok(name: str, text: str) -> Finding:
    """All is well."""
    return Finding(name, Level.OK, text)


def note(name: str, text: str, fix: str = "") -> Finding:
    """Worth knowing."""
    return Finding(name, Level.NOTE, text, fix)


def problem(name: str, text: str, fix: str) -> Finding:
    """Something to mend."""
    return Finding(name, Level.PROBLEM, text, fix)
