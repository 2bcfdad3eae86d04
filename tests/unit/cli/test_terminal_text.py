"""What may reach a terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from herma.cli.terminal_text import clean, is_safe, json_text, one_line

_ANY = st.text(alphabet=st.characters(), max_size=200)
# Built from what attacks are made of, which random text hardly hits.
_NASTY = st.lists(
    st.sampled_from(
        [
            "\x1b",
            "[31m",
            "[2J",
            "]0;title",
            "\x07",
            "\x9b",
            "\x9d",
            "\r",
            "\n",
            "\t",
            "\x7f",
            "\0",
            "\b",
            "\u202e",
            "\u2066",
            "\u200f",
            "\u061c",
            "\u2028",
            "\ud800",
            "漢字",
            "é",
            "👩‍💻",
            " ",
            "a",
        ]
    ),
    max_size=30,
).map("".join)


@given(_ANY | _NASTY)
def test_no_control_character_but_newline_and_tab_passes(text: str) -> None:
    for character in clean(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(character) not in (
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"
        )  # fmt: skip
    assert clean(clean(text)) == clean(text)
    clean(text).encode("utf-8")


@given(_ANY)
def test_text_without_controls_is_kept(text: str) -> None:
    kept = "".join(character for character in text if is_safe(character))
    assert clean(kept) == kept


@given(_ANY | _NASTY, st.integers(min_value=2, max_value=80))
def test_one_line_is_one_line_and_fits(text: str, width: int) -> None:
    line = one_line(text, width)
    assert "\n" not in line
    assert "\t" not in line
    assert cell_len(line) <= width


@given(_ANY | _NASTY)
def test_json_is_safe_and_unchanged(text: str) -> None:
    said = json_text({"text": text})
    assert all(is_safe(character) for character in said)
    assert said.isascii()
    assert json.loads(said) == {"text": text}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;pwned\x07", "␛]0;pwned␇"),
        ("\x1b[2J", "␛[2J"),
        ("\x9b2J", "‹U+009B›2J"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("user\u202etxt.exe", "user‹U+202E›txt.exe"),
        ("\x1b\x1b[0m[2J", "␛[2J"),
        ("👩‍💻 می‌خواهم 漢字 é", "👩‍💻 می‌خواهم 漢字 é"),
    ],
)
def test_marks(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_wide_characters_count_twice() -> None:
    assert one_line("漢字漢字", 8) == "漢字漢字"
    assert one_line("漢字漢字", 7) == "漢字漢…"
    assert one_line("a\n\n b\tc", 20) == "a b c"
