"""What commands print."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from herma.cli.output import age, moment, say_table


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("2026-01-02T00:00:00Z", "0s"),
        ("2026-01-01T23:59:01Z", "59s"),
        ("2026-01-01T23:00:01Z", "59m"),
        ("2026-01-01T00:00:01Z", "23h"),
        ("2025-12-02T02:00:00+02:00", "31d"),
        ("2026-01-03T00:00:00Z", "0s"),
    ],
)
def test_an_age_is_in_the_largest_unit(at: str, shown: str) -> None:
    assert age(at, datetime(2026, 1, 2, tzinfo=UTC)) == shown


def test_a_moment_is_in_utc() -> None:
    assert moment("2026-01-02T03:04:05.678+01:00") == "2026-01-02 02:04:05"
    assert moment(None) == "-"


def test_columns_are_as_wide_as_they_look(capsys: pytest.CaptureFixture[str]) -> None:
    say_table(("A", "B"), [("日本", "x"), ("abc", "\x1by\n")])
    assert capsys.readouterr().out == "A     B\n日本  x\nabc   ␛y\n"
    say_table(("A", "B"), [])
    assert capsys.readouterr().out == ""
