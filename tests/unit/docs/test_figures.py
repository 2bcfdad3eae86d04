"""The README's figures are those of `docs/benchmarks.md`, and nobody's else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

from docgen.figures import NOTHING, figures, fill  # noqa: E402

DOCUMENT = """\
# Benchmarks

| Machine | |
|---|---|
| CPU | two |

## Figures

| What | Target | Median | p95 | Quartiles | Min–max | n | Beside, same run | Verdict |
|---|---|---|---|---|---|---|---|---|
| Overhead | p50 ≤ 14 ms; p95 ≤ 28 ms | 11 ms | 20 | 10–12 | 9–30 | 200 | peer 570 ms (0.02 ×) | met |
| A hop | – | 1.0 ms | 2.0 | 1–1 | 1–2 | 20 | – | – |
| Sync | ≤ 60 ms | – | – | – | – | – | – | not measured: not built |

## How they are defined

| What | Target |
|---|---|
| other | table |
"""


def test_the_readme_equals_the_document() -> None:
    readme = (ROOT / "README.md").read_text()
    assert fill(readme, figures(ROOT / "docs" / "benchmarks.md")) == readme


def test_measured_lines_with_a_target_are_shown(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(DOCUMENT)
    assert figures(document).splitlines() == [
        "| What | Target | Median | Beside, same run | Verdict |",
        "|---|---|---|---|---|",
        "| Overhead | p50 ≤ 14 ms; p95 ≤ 28 ms | 11 ms | peer 570 ms (0.02 ×) | met |",
    ]


def test_without_a_document_nothing_is_claimed(tmp_path: Path) -> None:
    assert figures(tmp_path / "benchmarks.md") == NOTHING
    assert fill("a\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nb", NOTHING) == (
        f"a\n<!-- bench:begin -->\n{NOTHING}\n<!-- bench:end -->\nb"
    )


@pytest.mark.parametrize("text", ["# Benchmarks\n", DOCUMENT.replace("Verdict", "Opinion")])
def test_a_document_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(text)
    with pytest.raises(ValueError, match="no table"):
        figures(document)
    with pytest.raises(ValueError, match="no <!-- bench"):
        fill("no place", "text")
