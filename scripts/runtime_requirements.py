"""Prints the part of requirements.lock that the services need at run time, with its hashes.

The lock also holds what tests and extras need.  A package belongs here when pyproject.toml's
`dependencies` name it, or when the lock says that it came in (`# via`) by one that belongs here.
Standard library only: the build of the services' image runs it before anything is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package of the lock: its lines without comments, and who brought it in."""

    text: str
    parents: frozenset[str]


def main() -> None:
    """Prints the requirements of the tree that is given, or of this one."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    print(runtime_requirements(root), end="")


def runtime_requirements(root: Path) -> str:
    """Requirements for `pip install --no-deps --require-hashes`.

    Raises:
        SystemExit: when the lock lacks a package that pyproject.toml names.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    pins = parse((root / "requirements.lock").read_text())
    wanted = {canonical(dependency) for dependency in project["dependencies"]}
    if missing := sorted(wanted - pins.keys()):
        sys.exit(f"requirements.lock lacks {', '.join(missing)}: run `make lock`")
    while True:
        brought = {name for name, pin in pins.items() if pin.parents & wanted} - wanted
        if not brought:
            return "".join(pins[name].text for name in sorted(wanted))
        wanted |= brought


def parse(lock: str) -> dict[str, Pin]:
    """The packages of a lock, by canonical name."""
    pins = {}
    for block in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]:
        lines = block.splitlines()
        comments = " ".join(line.strip(" #") for line in lines if line.strip().startswith("#"))
        kept = [line for line in lines if line.strip() and not line.strip().startswith("#")]
        parents = comments.partition("via")[2].split()
        text = "\n".join(kept).rstrip("\\ ") + "\n"
        pins[canonical(block)] = Pin(text, frozenset(canonical(parent) for parent in parents))
    return pins


def canonical(requirement: str) -> str:
    """The normalised name that a requirement starts with; empty without one."""
    match = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


if __name__ == "__main__":
    main()
