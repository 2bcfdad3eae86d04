"""Reads one trace out of `spans.jsonl`, from its end backwards, in bounded memory.

The services of one machine append to the file as their spans end, so a trace's spans lie close together
and near the end; a file that grew too large is moved aside to `spans.jsonl.1`.  Lines of other traces are
skipped unparsed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from herma.cli.span_tree import Span

_BLOCK = 1024 * 1024
# Of both files together; their writer moves a file aside at 64 MiB.
_MOST_BYTES = 192 * 1024 * 1024
_MOST_SPANS = 50_000
# A span is written within seconds of its end; a line is as old as what it tells, give or take this.
_SLACK_NANOS = 300 * 1_000_000_000


def read_trace(folder: Path, trace_id: str, not_before: int = 0) -> list[Span]:
    """The spans of a trace that a data folder holds, at most 50,000.

    Args:
        not_before: Unix nanoseconds at which the trace began, as far as is known: what is much older is
            not looked at.
    """
    found: dict[str, Span] = {}
    wanted = trace_id.encode()
    for line in _lines_backwards(folder):
        if wanted not in line:
            if not_before and _end_of(line) < not_before - _SLACK_NANOS:
                break
            continue
        span = _span(line)
        if span is not None and span.trace_id == trace_id:
            found.setdefault(span.span_id, span)
            if len(found) >= _MOST_SPANS:
                break
    return list(found.values())


def recent_turns(folder: Path, at_most: int = 30) -> list[str]:
    """Ids of turns that ran last, newest first, out of the newest part of the file."""
    turns: dict[str, None] = {}
    for number, line in enumerate(_lines_backwards(folder)):
        if number > 3_000 or len(turns) >= at_most:
            break
        if b'"herma.turn.id"' in line and (span := _span(line)) is not None:
            turns.setdefault(str(span.attributes.get("herma.turn.id", "")))
    return [turn for turn in turns if turn]


def _lines_backwards(folder: Path) -> Iterator[bytes]:
    left, seen = _MOST_BYTES, set()
    for name in ("spans.jsonl", "spans.jsonl.1"):
        try:
            file = (folder / name).open("rb")
        except OSError:
            continue
        with file:
            inode = os.fstat(file.fileno()).st_ino
            # Moved aside between the two looks: it was read already.
            if inode not in seen:
                seen.add(inode)
                size = file.seek(0, os.SEEK_END)
                yield from _backwards(file, size, max(0, size - left))
                left -= size
        if left <= 0:
            return


def _backwards(file: BinaryIO, end: int, start: int) -> Iterator[bytes]:
    rest = b""
    while end > start:
        size = min(_BLOCK, end - start)
        end -= size
        file.seek(end)
        first, *lines = (file.read(size) + rest).split(b"\n")
        yield from reversed(lines)
        # A line without an end in sight is none of ours.
        rest = first if len(first) < 4 * _BLOCK else b""
    if rest and not start:
        yield rest


def _end_of(line: bytes) -> int:
    """When the span of a line ended; far in the future when that cannot be told."""
    _, found, rest = line.partition(b'"end": ')
    digits = rest[:20].split(b",")[0]
    return int(digits) if found and digits.isdigit() else 2**63


def _span(line: bytes) -> Span | None:
    try:
        record = json.loads(line)
        return Span(
            trace_id=str(record["trace_id"]),
            span_id=str(record["span_id"]),
            parent_id=str(record["parent_id"] or ""),
            name=str(record["name"]),
            service=str(record["service"] or ""),
            kind=str(record["kind"]),
            start=int(record["start"]),
            end=max(int(record["start"]), int(record["end"])),
            failed=record["status"] == "ERROR",
            attributes=dict(record["attributes"]),
            links=tuple(str(link["span_id"]) for link in record["links"]),
        )
    except (ValueError, KeyError, TypeError):
        # Half a line, cut by a full disk or a killed writer.
        return None
