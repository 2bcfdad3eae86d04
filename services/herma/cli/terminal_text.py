"""Text that others wrote, made safe for a terminal.

A model, a tool or a server may send escape sequences that move the cursor, rename the window or fill the
clipboard, and bidirectional controls that make text read as what it is not.  Invariant: what `clean`
answers holds no control character but newline and tab, and everything else as it was.  Controls are shown
as pictures instead of being dropped, so that nobody hides anything by them; colours are dropped, since
programs send them in good faith.
"""

from __future__ import annotations

import json
import re

from rich.cells import cell_len, set_cell_size

# ECMA-48, SGR: colours and weights.
_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,64}m")
# Unicode TR9, explicit formatting and implicit marks; U+206A to U+206F are their deprecated kin.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") | frozenset(
    map(chr, range(0x206A, 0x2070))
)
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff" + "".join(sorted(_BIDI)) + "]"
)


def is_safe(character: str) -> bool:
    """Whether a character may reach a terminal as it is."""
    return _UNSAFE.match(character) is None


def clean(text: str) -> str:
    """Text without colours, its other control and bidirectional characters as visible marks."""
    text = text.replace("\r\n", "\n")
    if not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(_mark, _COLOURS.sub("", text))


def one_line(text: str, width: int = 0) -> str:
    """Cleaned text in one line, white space folded; cut with an ellipsis at `width` cells unless 0."""
    folded = " ".join(clean(text).split())
    if not width or cell_len(folded) <= width:
        return folded
    return set_cell_size(folded, max(1, width) - 1).rstrip() + "…"


def json_text(value: object) -> str:
    """JSON whose text is safe on a terminal and unchanged for whoever parses it."""
    return json.dumps(value, indent=1).replace("\x7f", "\\u007f")


def _mark(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"‹U+{code:04X}›"
