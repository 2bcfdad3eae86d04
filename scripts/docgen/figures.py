"""The table of figures in the README, taken from `docs/benchmarks.md`, which `make bench` writes.

Nothing is typed in by hand: what the README says was measured, or it says that nothing was.
"""

from __future__ import annotations

from pathlib import Path

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
# Of the columns of the document, what a newcomer needs.
COLUMNS = ("What", "Target", "Median", "Beside, same run", "Verdict")
_ABSENT = "–"
NOTHING = (
    "Nothing was measured yet: `make bench` measures on your machine, and writes `docs/benchmarks.md`."
)


def figures(benchmarks: Path) -> str:
    """What the README says of speed: the lines that have a target and were measured.

    Raises:
        ValueError: when the document's table of figures is not there or has other columns.
    """
    if not benchmarks.exists():
        return NOTHING
    rows = _table(benchmarks.read_text(), "## Figures")
    measured = [row for row in rows if _ABSENT not in (row["Target"], row["Median"])]
    if not measured:
        raise ValueError(f"{benchmarks} has no figures")
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(row[column] for column in COLUMNS) + " |" for row in measured]
    return "\n".join(lines)


def fill(readme: str, text: str) -> str:
    """The README with the figures in their place.

    Raises:
        ValueError: when it has no place for them.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def _table(document: str, heading: str) -> list[dict[str, str]]:
    """The rows of the first table below a heading, by column."""
    lines = iter(document.partition(heading + "\n")[2].splitlines())
    table = []
    for line in lines:
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif table:
            break
    if not table or not set(COLUMNS) <= set(table[0]):
        raise ValueError(f"no table with the columns {', '.join(COLUMNS)} below {heading!r}")
    return [dict(zip(table[0], cells, strict=True)) for cells in table[2:]]
