"""The streamed answer, block by block, and calls in one line."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from herma.cli.chat.answer import Blocks, StreamedText
from herma.cli.chat.calls import Call, CallLog, expanded, telling
from herma.cli.chat.safe_markdown import SafeMarkdown
from herma.cli.terminal_text import is_safe

_LINES = st.sampled_from(
    ["# Title", "words and words", "", "- item", "  more", "1. one", "```", "code = 1", "| a | b |",
     "|---|---|", "> quote", "---", "漢字", "***", "    indented", "<b>html</b>", "[x]: http://y",
     "&#27;[2J"]
)  # fmt: skip
_TEXT = st.lists(_LINES, max_size=30).map("\n".join)


@given(_TEXT, st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_blocks_are_the_text_however_it_is_cut(text: str, sizes: list[int]) -> None:
    blocks, parts, at, turn = Blocks(), [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        parts.append(blocks.add(text[at : at + size]))
        at, turn = at + size, turn + 1
    assert "".join(parts) + blocks.finish() == text
    assert blocks.tail == ""


def test_a_block_is_final_once_another_follows() -> None:
    blocks = Blocks()
    assert blocks.add("# Title\n\n") == ""
    assert blocks.add("some ") == ""
    assert blocks.add("words\n") == "# Title\n\n"
    assert blocks.tail == "some words\n"
    assert blocks.add("\n```\na\n\nb\n") == "some words\n\n"
    assert blocks.add("```\n\nafter\n") == "```\na\n\nb\n```\n\n"
    assert blocks.finish() == "after\n"


def test_endless_code_is_cut_and_stays_code() -> None:
    blocks = Blocks()
    parts = [blocks.add("```python\n"), *(blocks.add(f"line_{number} = 1\n") for number in range(4_000))]
    assert len(blocks.tail) < 10_000
    final = [part for part in [*parts, blocks.finish()] if part]
    assert len(final) > 4
    assert all(part.startswith("```python\n") for part in final)
    found = [line for part in final for line in part.splitlines() if line.startswith("line_")]
    assert found == [f"line_{number} = 1" for number in range(4_000)]


def test_a_line_of_code_without_end_is_kept_whole() -> None:
    blocks = Blocks()
    said = ["```\n", "x" * 30_000 + "\n", "y\n", "```\n\nafter\n"]
    assert "".join([*(blocks.add(part) for part in said), blocks.finish()]) == "".join(said)


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=20))
def test_pieces_that_come_again_are_shown_once(text: str, pieces: list[tuple[int, int]]) -> None:
    streamed, shown = StreamedText(), ""
    for start, length in pieces:
        offset = min(start, len(streamed.text))
        shown += streamed.take(offset, text[offset : max(offset, min(len(text), offset + length))])
        assert text.startswith(shown)
        assert shown == streamed.text


@settings(max_examples=40)
@given(_TEXT | st.text(max_size=80), st.integers(10, 60))
def test_rendered_markdown_is_safe(text: str, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, color_system=None)
    console.print(SafeMarkdown(text))
    assert isinstance(console.file, io.StringIO)
    assert all(is_safe(character) for character in console.file.getvalue())


def event(kind: str, at: str = "2026-01-01T00:00:00Z", **more: object) -> dict[str, object]:
    return {"kind": kind, "call_id": "c", "at": at, "tool": "terminal", **more}


def test_a_call_is_folded_into_a_line() -> None:
    log = CallLog()
    log.take(event("call.proposed", arguments='{"command": "ls -la"}'))
    log.take(event("call.running"))
    assert [call.id for call in log.running] == ["c"]
    call = log.take(
        event(
            "call.completed", "2026-01-01T00:00:01.250Z", state="completed", is_error=True,
            content="[exit code 2]\none\ntwo\n",
        )
    )  # fmt: skip
    assert call is not None
    assert call.summary(80) == "terminal ls -la · exit 2 · 1.2 s · 2 lines"
    assert expanded(call, 10) == ["one", "two"]
    assert expanded(call, 1) == ["one", "… 1 more lines"]
    assert log.running == []
    assert log.take({"kind": "status", "text": "x"}) is None


@given(st.text(max_size=100), st.text(max_size=200), st.text(max_size=100), st.integers(4, 120))
def test_a_folded_call_is_one_safe_line(tool: str, arguments: str, output: str, width: int) -> None:
    line = Call("c", tool, arguments, state="completed", output=output).summary(width)
    assert cell_len(line) <= width
    assert all(is_safe(character) for character in line)
    assert "\n" not in line
    for shown in expanded(Call("c", tool, arguments, output=output), 5):
        assert all(is_safe(character) for character in shown)


def test_what_says_most_stands_for_the_arguments() -> None:
    assert telling('{"path": "a.txt", "content": "long"}') == "a.txt"
    assert telling('{"other": 1}') == '{"other": 1}'
    assert telling("{no json") == "{no json"
    assert telling("[1]") == "[1]"
