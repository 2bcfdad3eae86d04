"""The text of one message as it streams in.  Pure.

Deltas carry offsets, and who reconnects gets the text so far once more: nothing is shown twice.  For a
terminal that renders Markdown the text is cut into *blocks*: a block that another one follows will not
change any more and may be printed for good; the last one still grows.
"""

from __future__ import annotations

from markdown_it import MarkdownIt

# A block that grows beyond this is cut at a line's end: somewhere a terminal must scroll.
_MOST_BLOCK = 24_000


class StreamedText:
    """Text by offsets, without repeats."""

    def __init__(self) -> None:
        self.text = ""

    def take(self, offset: int, text: str) -> str:
        """What is new in a piece that begins at `offset`."""
        known = len(self.text) - offset
        if known < 0:
            # A piece was lost: show what there is, the whole message comes at the end.
            known = 0
        new = text[known:]
        self.text += new
        return new


class Blocks:
    """Text that becomes final block by block."""

    def __init__(self) -> None:
        self.tail = ""
        self._markdown = MarkdownIt().enable(["table", "strikethrough"])

    def add(self, text: str) -> str:
        """Takes text; the Markdown that is final now, often none."""
        self.tail += text
        if "\n" not in text:
            return ""
        cut = self._last_block()
        if not cut and len(self.tail) > _MOST_BLOCK:
            cut = self.tail.rfind("\n", 0, _MOST_BLOCK) + 1
        final, self.tail = self.tail[:cut], self.tail[cut:]
        return final

    def finish(self) -> str:
        """The rest."""
        rest, self.tail = self.tail, ""
        return rest

    def _last_block(self) -> int:
        """Where the last top-level block begins, in characters."""
        starts = [
            token.map[0]
            for token in self._markdown.parse(self.tail)
            if token.level == 0 and token.map is not None and token.nesting >= 0
        ]
        if len(starts) < 2:
            return 0
        lines = self.tail.split("\n")
        return sum(len(line) + 1 for line in lines[: starts[-1]])
