"""Text to terms: what full-text recall compares.

Words are folded (case, width, accents) and not stemmed, as PostgreSQL's `simple` configuration has it,
but here, so that no extension is needed and a query can hold no syntax.  Scripts that write no spaces
(Chinese, Japanese, Thai, ...) and Korean, whose words carry particles, become overlapping pairs of
characters (bigrams).

Invariant: a query's terms are a subset of the terms of any text that contains it literally, up to the
words at its ends.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MAX_TERM = 48
MAX_TERMS = 1_000

# Han, kana, Hangul, Bopomofo, Thai, Lao, Myanmar, Khmer.
_PAIRED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3041-\u3096"
    "\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and other marks inside words of Indic and other scripts, which `\w` leaves out.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0dff"
_RUN = re.compile(f"(?P<paired>[{_PAIRED}]+)|(?P<word>(?:(?![{_PAIRED}])(?:[^\\W_]|[{_MARKS}]))+)")
# Accents, and the optional vowel marks of Hebrew and Arabic.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u1ab0-\u1aff\u1dc0-\u1dff]"
)
# Letters with a stroke or joined ones, which Unicode does not take apart.
_PLAIN = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
)


def fold(text: str) -> str:
    """Case, width and accents do not count.  Kana keep their voicing marks, Hangul its syllables."""
    text = unicodedata.normalize("NFKC", text).casefold()
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart)).translate(_PLAIN)


def document_terms(text: str) -> list[str]:
    """The terms that a text is found by, each once, in order; at most `MAX_TERMS`.

    Scripts without spaces are also found by a single character.
    """
    return _distinct(_terms(fold(text), with_characters=True))


def query_terms(text: str) -> list[str]:
    """The terms of a question, each once, in order; at most `MAX_TERMS`."""
    return _distinct(_terms(fold(text), with_characters=False))


def _terms(folded: str, *, with_characters: bool) -> Iterator[str]:
    for match in _RUN.finditer(folded):
        run = match["paired"]
        if run is None:
            yield match["word"][:MAX_TERM]
            continue
        if len(run) == 1 or with_characters:
            yield from run
        for i in range(len(run) - 1):
            yield run[i : i + 2]


def _distinct(terms: Iterator[str]) -> list[str]:
    found: dict[str, None] = {}
    for term in terms:
        found[term] = None
        if len(found) == MAX_TERMS:
            break
    return list(found)
