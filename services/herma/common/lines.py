"""A line of text: what names, titles and keys are, by the same rule for every service and every document.

Invariant: nothing that is a line by the pattern is refused as one later.
"""

from __future__ import annotations

import re
from typing import Final

# No control characters and nothing that ends a line; also as a JSON Schema (ECMA 262).
LINE_PATTERN: Final = "^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
# A name that is also a DNS label (RFC 1123).
LABEL_PATTERN: Final = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"

_LINE: Final = re.compile(LINE_PATTERN.removesuffix("$"))
_LABEL: Final = re.compile(LABEL_PATTERN.removesuffix("$"))


def is_line(text: str) -> bool:
    """Whether text is one line of characters that can be stored."""
    return bool(_LINE.fullmatch(text)) and _encodes(text)


def is_label(text: str) -> bool:
    """Whether text is a DNS label in lower case."""
    return bool(_LABEL.fullmatch(text))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
