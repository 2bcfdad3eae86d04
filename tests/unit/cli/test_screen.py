"""How a turn's events look, on a terminal and without one."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from herma.cli.chat.calls import CallLog
from herma.cli.chat.screen import TurnScreen

AT = "2026-01-01T00:00:00Z"


def shown(*events: dict[str, Any], terminal: bool = False, width: int = 60, verbose: bool = False) -> str:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=terminal, width=width, height=20, color_system=None, highlight=False,
        _environ={"TERM": "xterm"},
    )  # fmt: skip
    with TurnScreen(console, CallLog(), verbose) as screen:
        for event in events:
            screen.take(event)
    return file.getvalue()


def delta(offset: int, text: str, message: str = "m") -> dict[str, Any]:
    return {"kind": "message.delta", "message_id": message, "offset": offset, "text": text}


def completed(content: str, message: str = "m") -> dict[str, Any]:
    return {"kind": "message.completed", "message_id": message, "content": content}


def discarded(message: str = "m") -> dict[str, Any]:
    return {"kind": "message.discarded", "message_id": message, "reason": "provider_error"}


@pytest.mark.parametrize("terminal", [False, True])
def test_text_of_a_void_attempt_is_withdrawn(terminal: bool) -> None:
    text = shown(delta(0, "void text"), discarded(), completed("real text", "n"), terminal=terminal)
    before, found, after = text.partition("withdrawn: the text above does not count (provider error)")
    assert found
    assert "void text" in before
    assert "void text" not in after
    assert "real text" in after


@pytest.mark.parametrize("terminal", [False, True])
def test_an_attempt_that_showed_nothing_is_not_withdrawn(terminal: bool) -> None:
    assert "withdrawn" not in shown(discarded(), completed("text", "n"), terminal=terminal)


def test_text_that_comes_again_is_shown_once_and_completed() -> None:
    text = shown(
        delta(0, "one "), delta(0, "one two "), delta(8, "three"), completed("one two three four")
    )
    assert text == "one two three four\n"


def test_a_final_text_that_is_another_replaces_what_streamed() -> None:
    text = shown(delta(0, "first"), completed("second"))
    assert "withdrawn" in text
    assert text.endswith("second\n")


@pytest.mark.parametrize("event", [{"text": "recalled: 3"}, {"text": "", "recalled": 3}])
def test_recall_is_indicated(event: dict[str, Any]) -> None:
    assert shown({"kind": "status", **event}) == "· recalled: 3\n"


def test_status_and_another_attempt_are_said() -> None:
    text = shown(
        {"kind": "status", "text": "The provider is busy.\x1b[2J Trying again."},
        {"kind": "turn.resumed", "attempt": 2},
    )
    assert "· The provider is busy.␛[2J Trying again." in text
    assert "attempt 2" in text


def test_calls_are_folded_or_all_there() -> None:
    call = {"call_id": "c", "tool": "terminal", "at": AT}
    events = [
        {"kind": "call.proposed", "arguments": '{"command": "seq 3"}', **call},
        {"kind": "call.running", **call},
        {
            "kind": "call.completed", "state": "completed", "is_error": False,
            "content": "[exit code 0]\n1\n2\n3\n", **call,
        },
    ]  # fmt: skip
    assert shown(*events) == "✓ terminal seq 3 · exit 0 · 0.0 s · 3 lines\n"
    assert shown(*events, verbose=True).endswith("3 lines\n  1\n  2\n  3\n")


def test_markdown_is_rendered_on_a_terminal_alone() -> None:
    events = [delta(0, "**bold**\n\n"), delta(10, "next 漢字"), completed("**bold**\n\nnext 漢字")]
    assert "**bold**" in shown(*events)
    text = shown(*events, terminal=True)
    assert "**" not in text
    assert "bold" in text
    assert "next 漢字" in text
