"""The text of one message as it streams in.  Pure.

Deltas carry offsets, and who reconnects gets the text so far once more: nothing is shown twice.  For a
terminal that renders Markdown the text is cut into *blocks*: a block that another one follows will not
change any more and may be printed for good; the last one still grows.
"""

from __future__ import annotations

from markdown_it import MarkdownIt

# A block that grows beyond this is cut at a line's end: it is drawn again many times while it grows.
_MOST_BLOCK = 8_000
# A tail without a finished block is not parsed again before it is a tenth longer.
_GROWTH = 1.1


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
        self._parse_at = 0.0

    def add(self, text: str) -> str:
        """Takes text; the Markdown that is final now, often none."""
        self.tail += text
        if "\n" not in text or len(self.tail) < self._parse_at:
            return ""
        cut, fence = self._last_block()
        if cut or len(self.tail) <= _MOST_BLOCK:
            fence = ""
        else:
            cut = self._line_end(fence)
            fence = fence if cut else ""
        self._parse_at = 0.0 if cut or len(self.tail) < 1_000 else len(self.tail) * _GROWTH
        # What is left of code that was cut is code still.
        final, self.tail = self.tail[:cut], fence + self.tail[cut:]
        return final

    def finish(self) -> str:
        """The rest."""
        rest, self.tail = self.tail, ""
        self._parse_at = 0.0
        return rest

    def _line_end(self, fence: str) -> int:
        """Where a block that is too long may be cut; 0 when one line of it is."""
        cut = self.tail.rfind("\n", 0, _MOST_BLOCK) + 1
        return cut if self.tail[:cut].replace(fence, "", 1).strip() else 0

    def _last_block(self) -> tuple[int, str]:
        """Where the last top-level block begins, in characters; and if it is code, its opening line."""
        blocks = [
            token
            for token in self._markdown.parse(self.tail)
            if token.level == 0 and token.map is not None and token.nesting >= 0
        ]
        if not blocks or blocks[-1].map is None:
            return 0, ""
        lines = self.tail.split("\n")
        first = blocks[-1].map[0]
        fence = lines[first] + "\n" if blocks[-1].type == "fence" else ""
        start = sum(len(line) + 1 for line in lines[:first]) if len(blocks) > 1 else 0
        return start, fence
