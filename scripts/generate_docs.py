"""Writes the documents that are generated; with `--check` tells whether they are up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from docgen import audit_actions, cli_reference, configuration, http_reference
from docgen.figures import figures, fill

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def generated() -> Iterator[tuple[Path, str]]:
    """Each document and what it should say."""
    yield DOCS / "configuration.md", configuration.render()
    yield DOCS / "cli.md", cli_reference.render()
    yield DOCS / "http.md", http_reference.render()
    audit = DOCS / "audit.md"
    yield audit, audit_actions.fill(audit.read_text())
    readme = ROOT / "README.md"
    yield readme, fill(readme.read_text(), figures(DOCS / "benchmarks.md"))


def main() -> None:
    """Writes or checks."""
    stale = [(path, text) for path, text in generated() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv:
        for path, text in stale:
            path.write_text(text)
    elif stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path, _ in stale)
        sys.exit(f"out of date: {names}; run scripts/generate_docs.py")


if __name__ == "__main__":
    main()
