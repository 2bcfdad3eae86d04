"""Spans out of files, from their ends."""

from __future__ import annotations

import json
from pathlib import Path

from herma.cli import span_file
from herma.cli.span_file import read_trace, recent_turns

_SECOND = 1_000_000_000


def line(trace: str, span_id: str, end: int = 10, **attributes: str) -> str:
    record = {
        "trace_id": trace, "span_id": span_id, "parent_id": None, "name": span_id, "kind": "INTERNAL",
        "start": 1, "end": end, "status": "UNSET", "service": "herma-x",
        "attributes": attributes, "links": [],
    }  # fmt: skip
    return json.dumps(record) + "\n"


def ids(folder: Path, trace: str, not_before: int = 0) -> list[str]:
    return sorted(span.span_id for span in read_trace(folder, trace, not_before))


def test_a_trace_is_found_in_both_files_over_block_borders(tmp_path: Path) -> None:
    pad = "x" * 5000
    old = [line("aa", "a1"), *(line("bb", f"b{n}", pad=pad) for n in range(400)), line("aa", "a2")]
    new = [*(line("bb", f"c{n}", pad=pad) for n in range(400)), line("aa", "a3")]
    (tmp_path / "spans.jsonl.1").write_text("".join(old))
    (tmp_path / "spans.jsonl").write_text("".join(new))
    assert ids(tmp_path, "aa") == ["a1", "a2", "a3"]
    assert len(ids(tmp_path, "bb")) == 800
    assert ids(tmp_path, "cc") == []


def test_what_is_much_older_is_not_looked_at(tmp_path: Path) -> None:
    now = 1_000_000 * _SECOND
    lines = [line("aa", "before", now), line("bb", "old", now - 400 * _SECOND), line("aa", "after", now)]
    (tmp_path / "spans.jsonl").write_text("".join(lines))
    assert ids(tmp_path, "aa", now) == ["after"]
    assert ids(tmp_path, "aa") == ["after", "before"]


def test_half_lines_and_lines_that_lie_are_passed_over(tmp_path: Path) -> None:
    whole = line("aa", "a1")
    junk = ['{"trace_id": "aa", "span_id"', '{"trace_id": "aa"}', '["aa"]', "\xff aa", "", '"aa"']
    cheat = line("bb", "b1", note="aa")
    (tmp_path / "spans.jsonl").write_text(whole + "\n".join(junk) + "\n" + cheat + line("aa", "a2")[:50])
    assert ids(tmp_path, "aa") == ["a1"]


def test_there_is_a_bound(tmp_path: Path) -> None:
    with (tmp_path / "spans.jsonl").open("w") as file:
        file.write(line("aa", "first"))
        for number in range(3_000):
            file.write(line("bb", f"b{number}", pad="x" * 1_000))
        file.write(line("aa", "last"))
    before = span_file._MOST_BYTES
    span_file._MOST_BYTES = 1024 * 1024
    try:
        assert ids(tmp_path, "aa") == ["last"]
    finally:
        span_file._MOST_BYTES = before
    assert ids(tmp_path, "aa") == ["first", "last"]


def test_no_file_is_no_span(tmp_path: Path) -> None:
    assert read_trace(tmp_path, "aa") == []
    assert recent_turns(tmp_path / "none") == []


def test_the_newest_turns_come_first(tmp_path: Path) -> None:
    lines = [line("aa", f"s{n}", **{"herma.turn.id": f"turn-{n // 2}"}) for n in range(10)]
    (tmp_path / "spans.jsonl").write_text("".join(lines))
    assert recent_turns(tmp_path) == ["turn-4", "turn-3", "turn-2", "turn-1", "turn-0"]
    assert recent_turns(tmp_path, 2) == ["turn-4", "turn-3"]
