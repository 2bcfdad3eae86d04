"""How results are shown: a table for the terminal, a document for the repository."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.machine import Machine
from tests.benchmarks.result import Beside, Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.target import Verdict

_COLUMNS = ("What", "Target", "Median", "p95", "Quartiles", "Min–max", "n", "Beside, same run", "Verdict")


def row(result: Result) -> tuple[str, ...]:
    """One result's cells, in the order of the columns."""
    targets = [str(target) for target in result.targets]
    targets += [_ratio_target(other) for other in result.beside if other.bound is not None]
    shown = "; ".join(targets) or "–"
    if result.samples is None:
        return (result.what, result.promised or shown, *["–"] * 6, f"not measured: {result.reason}")
    ours, unit = result.samples, result.unit
    low, high = ours.quartiles
    return (
        result.what,
        shown,
        f"{_number(ours.median)} {unit}",
        _number(ours.p95),
        f"{_number(low)}–{_number(high)}",
        f"{_number(ours.least)}–{_number(ours.most)}",
        str(ours.count),
        "; ".join(_beside(other, ours, unit) for other in result.beside) or "–",
        result.verdict.value,
    )


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in rows]
    return "\n".join(lines) + "\n"


def text_table(results: Sequence[Result]) -> str:
    """Results for a terminal, one block each."""
    lines = []
    for result in results:
        cells = dict(zip(_COLUMNS, row(result), strict=True))
        lines.append(f"{result.verdict:>12}  {cells.pop('What')}  [{cells.pop('Target')}]")
        del cells["Verdict"]
        figures = "  ".join(f"{name}: {cell}" for name, cell in cells.items() if cell != "–")
        lines.append(" " * 14 + (figures or result.reason))
    return "\n".join(lines)


def document(
    results: Sequence[Result],
    machine: Machine,
    commands: Sequence[str],
    sections: Sequence[tuple[str, str]],
    *,
    quick: bool,
) -> str:
    """`docs/benchmarks.md`."""
    beyond = [r for r in results if r.verdict in (Verdict.NEAR, Verdict.MISSED)]
    left = [r for r in results if r.verdict is Verdict.NOT_MEASURED]
    parts = [
        "# Benchmarks\n\nWritten by `make bench`. It exits non-zero when a target is not"
        " reached; what could"
        " not be measured is said so and counts as neither. Figures of one machine, one run: compare the"
        " ratios, which were measured beside ours in the same run.\n",
        f"\n{len(results)} lines, {len(beyond)} beyond their target, {len(left)} not measured."
        + (" **A quick run, with few samples.**" if quick else "")
        + "\n\n",
        markdown_table(("Machine", ""), machine.facts),
        "\n```sh\n" + "\n".join(commands) + "\n```\n\n## Figures\n\n",
        markdown_table(_COLUMNS, [row(result) for result in results]),
        "\n## How they are defined\n\n",
        *(f"- **{r.what}**: {r.notes}\n" for r in results if r.samples is not None and r.notes),
    ]
    parts += [f"\n## {title}\n\n{body.rstrip()}\n" for title, body in sections]
    return "".join(parts)


def _ratio_target(other: Beside) -> str:
    sense = "≥" if other.times_faster else "≤"
    return f"{sense} {other.bound:g} × {other.name}"


def _beside(other: Beside, ours: Samples, unit: str) -> str:
    word = "× faster" if other.times_faster else "×"
    return f"{other.name} {_number(other.samples.median)} {unit} ({_number(other.ratio(ours))} {word})"


def _number(value: float) -> str:
    if value != 0 and abs(value) < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"
