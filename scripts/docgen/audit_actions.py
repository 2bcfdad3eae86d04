"""The table of audited actions in `docs/audit.md`, from the catalogue itself."""

from __future__ import annotations

import re

from herma.session_authority.domain.audit import Action

_PLACE = re.compile(r"(?<=<!-- actions -->\n).*?(?=<!-- /actions -->)", re.DOTALL)


def fill(document: str) -> str:
    """The document with the table in its place."""
    rows = "".join(f"| `{action.label}` | {action.target} |\n" for action in Action)
    return _PLACE.sub(lambda _: "| Action | Target |\n|---|---|\n" + rows, document)
