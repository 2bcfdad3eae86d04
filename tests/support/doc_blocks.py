"""The code blocks of Markdown documents, and what their fences say about running them.

A fence's first word is the language; GitHub shows no more of it.  Then may follow:

- `stays-up`: the command serves until it is stopped; the block is done when it says that it is ready;
- `no-test reason="…"`: the block is not run, for that reason;
- `exit=N`: it ends with this status instead of 0.

A `text` or `json` block right after a block that is run is what it prints.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(?P<info>.*)$")
RUN = ("sh", "python")
# Console blocks are generated usage lines; the others are shown, not run.
KNOWN = (*RUN, "text", "json", "yaml", "console", "sql")


@dataclass(frozen=True, slots=True)
class Block:
    """One block.  `line` is its fence's, counted from 1."""

    document: Path
    line: int
    language: str
    options: dict[str, str]
    text: str
    follows: int

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.document.name}:{self.line}"


def blocks_of(document: Path) -> list[Block]:
    """A document's blocks, in order.

    Raises:
        AssertionError: for a fence that is not understood, or not closed.
    """
    found: list[Block] = []
    opened: tuple[int, list[str]] | None = None
    lines: list[str] = []
    closed_at = 0
    for number, line in enumerate(document.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            lines.append(line)
        elif opened is None:
            between = "".join(lines).strip()
            opened, lines = (number, shlex.split(fence["info"])), []
            follows = closed_at if not between else 0
        else:
            start, words = opened
            where = f"{document.name}:{start}"
            assert {*words[:1]} & {*KNOWN}, f"{where}: a fence names one of {KNOWN}"
            options = dict(word.partition("=")[::2] for word in words[1:])
            assert set(options) <= {"stays-up", "no-test", "reason", "exit"}, f"{where}: {options}"
            text = "\n".join(lines)
            found.append(Block(document, start, words[0], options, text, follows))
            opened, lines, closed_at = None, [], start
    assert opened is None, f"{document.name}: a block is not closed"
    return found


def shown_after(blocks: list[Block], block: Block) -> Block | None:
    """The output that the document shows for a block, if it shows any."""
    index = blocks.index(block) + 1
    if index < len(blocks) and blocks[index].follows == block.line:
        after = blocks[index]
        return after if after.language in ("text", "json") else None
    return None


_VARIABLE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d+(?:[.,:]\d+)*|…")


def mismatch(shown: Block, printed: str) -> str:
    """How the output differs in shape from what is shown; empty if it does not.

    In text, `…` stands for anything, a number for any number, an id for any id, and runs of blanks are
    alike; lines that are only `…` stand for any lines.  In JSON, fields and types count.
    """
    if shown.language == "json":
        return _differs(json.loads(shown.text), json.loads(printed), "$")
    pattern = "".join(_line_pattern(line) for line in shown.text.splitlines())
    if re.fullmatch(pattern, printed.strip("\n") + "\n"):
        return ""
    return f"shown:\n{shown.text}\nprinted:\n{printed}"


def _line_pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*?"
    pattern, at = "", 0
    for match in _VARIABLE.finditer(line):
        pattern += _literal(line[at : match.start()])
        found = match[0]
        pattern += ".*?" if found == "…" else "[0-9a-f-]{36}" if "-" in found else r"\d+(?:[.,:]\d+)*"
        at = match.end()
    return pattern + _literal(line[at:]) + r"[ ]*\n"


def _literal(text: str) -> str:
    return "[ ]+".join(re.escape(part) for part in re.split(" +", text))


def _differs(shown: Any, printed: Any, path: str) -> str:
    if isinstance(shown, dict) and isinstance(printed, dict):
        if shown.keys() != printed.keys():
            return f"{path}: {sorted(shown)} are shown, {sorted(printed)} printed"
        parts = (_differs(value, printed[key], f"{path}.{key}") for key, value in shown.items())
        return "\n".join(filter(None, parts))
    if isinstance(shown, list) and isinstance(printed, list):
        if shown and not printed:
            return f"{path}: items are shown, none printed"
        return _differs(shown[0], printed[0], f"{path}[0]") if shown else ""
    return "" if type(shown) is type(printed) else f"{path}: {shown!r} is shown, {printed!r} printed"
