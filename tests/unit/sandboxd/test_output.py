"""The window of a command's output."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from herma.sandboxd import output
from herma.sandboxd.output import OutputWindow

PIECES = st.lists(st.binary(max_size=300), max_size=40)
LIMITS = st.integers(min_value=1, max_value=500)


def filled(limit: int, pieces: list[bytes], file: Path) -> OutputWindow:
    def open_spill() -> tuple[int, bytes]:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), os.fsencode(file.name)

    window = OutputWindow(limit, open_spill)
    for piece in pieces:
        window.add(piece)
    window.close()
    return window


@given(LIMITS, PIECES)
def test_head_and_tail_are_the_ends_of_the_output_and_the_file_is_all_of_it(
    limit: int, pieces: list[bytes]
) -> None:
    whole = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spill"
        window = filled(limit, pieces, file)
        assert window.total == len(whole)
        if len(whole) <= limit:
            assert window.head + window.tail == whole
            assert (window.spill_path, file.exists()) == (b"", False)
        else:
            head = int(limit * 0.4)
            assert window.head == whole[:head]
            assert window.tail == whole[len(whole) - (limit - head) :]
            assert window.spill_path == b"spill"
            assert file.read_bytes() == whole


@given(LIMITS, PIECES)
def test_without_a_file_the_window_is_the_same(limit: int, pieces: list[bytes]) -> None:
    def refuse() -> tuple[int, bytes]:
        raise OSError("no room")

    window = OutputWindow(limit, refuse)
    for piece in pieces:
        window.add(piece)
    whole = b"".join(pieces)
    assert window.total == len(whole)
    assert whole.startswith(window.head)
    assert whole.endswith(window.tail)
    assert len(window.head) + len(window.tail) == min(limit, len(whole))
    assert window.spill_path == b""


def test_a_file_that_lacks_some_of_the_output_is_not_named() -> None:
    window = OutputWindow(10, lambda: (os.open("/dev/full", os.O_WRONLY), b"spill"))
    for _ in range(5):
        window.add(b"0123456")
    assert window.spill_path == b""
    assert (window.head, window.total) == (b"0123", 35)


def test_the_file_is_bounded(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(output, "MAX_SPILL", 1000)
    window = filled(100, [bytes([n]) * 70 for n in range(100)], tmp_path / "spill")
    assert (tmp_path / "spill").stat().st_size == 1000
    assert (window.total, window.spill_path) == (7000, b"spill")
