"""Where streamed text is cut.

Invariant: the cuts follow from the text alone, not from how it came, so the events of a response have
the same numbers whenever it is streamed, and a client can go on after any of them.
"""

from __future__ import annotations

import re

# A word with the white space that ends it; of what has no such end, 16 characters. Only ASCII ends a
# word, for what else is white space differs between releases of Unicode.
_WORD = re.compile(r"[^ \t\n]{0,15}[ \t\n]|[^ \t\n]{16}")
# Of a long text from here on, 64 characters: nobody reads so fast, and each event costs.
_LONG = 8_192
_RUN = re.compile(r".{64}", re.DOTALL)


def whole_pieces(text: str, start: int) -> list[str]:
    """The pieces from a cut on that no text to come can change."""
    pieces = []
    while (piece := (_WORD if start < _LONG else _RUN).match(text, start)) is not None:
        pieces.append(piece.group())
        start = piece.end()
    return pieces
