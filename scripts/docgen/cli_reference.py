"""`docs/cli.md`: every command, from the command line itself, by typer's own generator."""

from __future__ import annotations

import html
import os
import subprocess
import sys

HEAD = """\
# Command line

Generated from the code by `make docs`. `herma` finds the platform by `HERMA_URL` and `HERMA_API_KEY`,
else by the data folder (`HERMA_DATA_DIR`, else `.herma` here). Exit codes: 0 done, 1 refused or failed,
2 wrong usage, 3 the turn did not complete.
"""


def render() -> str:
    """The whole document."""
    made = subprocess.run(
        [sys.executable, "-m", "typer", "herma.cli.main", "utils", "docs", "--name", "herma"],
        # Neither colour nor width of whoever runs it.
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # The tool titles the document itself, and writes for HTML.
    body = html.unescape(made.partition("\n")[2].strip())
    return f"{HEAD}\n{body}\n"
