"""Whatever way a turn's text comes, it is the same text, and never that of two attempts."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.gateway.completions.assembly import Assembly
from herma.gateway.completions.outcome import Answered, Failed

Item = session_pb2.SubscribeResponse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def event(kind: str, turn_id: str = "t", **data: Any) -> Item:
    return Item(event=ledger_pb2.Event(kind=kind, turn_id=turn_id, data=json.dumps(data).encode()))


def delta(message_id: str, offset: int, text: str, turn_id: str = "t") -> Item:
    return Item(delta=ledger_pb2.Delta(turn_id=turn_id, message_id=message_id, offset=offset, text=text))


def whole(message_id: str, content: str) -> Item:
    return event("message.completed", message_id=message_id, content=content, finish_reason="stop")


END = event("turn.ended", state="completed", exit_reason="final_answer")


def assembled(items: list[Item], *, streamed: bool) -> tuple[str, Any]:
    """What is handed out until there is an outcome."""
    assembly = Assembly("t", streamed=streamed)
    text = ""
    for item in items:
        text += assembly.take(item)
        if assembly.outcome is not None:
            break
    return text, assembly.outcome


@st.composite
def message(draw: st.DrawFn, message_id: str, content: str) -> list[Item]:
    """One message as a subscriber may see it: pieces lost, repeated after a reconnection, or all."""
    items: list[Item] = []
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, len(content)))
        if start < end:
            items.append(delta(message_id, start, content[start:end]))
        if draw(st.booleans()):
            items.append(delta("other", 0, "of another turn", "u"))
    return [*items, whole(message_id, content)]


@given(st.data(), st.lists(TEXT, min_size=1, max_size=4))
def test_streamed_pieces_joined_are_the_whole_answer(data: st.DataObject, contents: list[str]) -> None:
    items: list[Item] = []
    for number, content in enumerate(contents):
        # Before it, an attempt of which nothing was seen.
        items.append(event("message.discarded", message_id=f"d{number}", reason="provider_error"))
        items += data.draw(message(f"m{number}", content))
    items.append(END)
    expected = "\n\n".join(content for content in contents if content)
    for streamed in (True, False):
        text, outcome = assembled(items, streamed=streamed)
        assert text == expected
        assert isinstance(outcome, Answered)


@given(st.data(), TEXT, TEXT.filter(bool), TEXT)
def test_nothing_follows_text_that_came_to_nothing(
    data: st.DataObject, before: str, lost: str, after: str
) -> None:
    shown = lost[: data.draw(st.integers(1, len(lost)))]
    items = [
        whole("m0", before),
        delta("m1", 0, shown),
        event("message.discarded", message_id="m1", reason="provider_error"),
        delta("m2", 0, after),
        whole("m2", after),
        END,
    ]
    text, outcome = assembled(items, streamed=True)
    assert text == "\n\n".join(part for part in (before, shown) if part)
    assert isinstance(outcome, Failed)
    assert outcome.code == "answer_retracted"
    text, outcome = assembled(items, streamed=False)
    assert text == "\n\n".join(part for part in (before, after) if part)
    assert isinstance(outcome, Answered)


def test_a_turn_that_ends_in_mid_message_says_why() -> None:
    items = [
        delta("m", 0, "half"),
        event("message.discarded", message_id="m", reason="turn_ended"),
        event("turn.ended", state="interrupted", exit_reason="interrupted_by_user"),
    ]
    text, outcome = assembled(items, streamed=True)
    assert text == "half"
    assert isinstance(outcome, Failed)
    assert outcome.code == "interrupted_by_user"
    spent = [*items[:2], event("turn.ended", state="failed", exit_reason="run_budget")]
    assert isinstance(assembled(spent, streamed=True)[1], Failed)
    assert assembled(spent, streamed=False)[1].finish_reason == "length"


def test_an_answer_that_differs_from_what_was_shown_is_an_error() -> None:
    _, outcome = assembled([delta("m", 0, "abc"), whole("m", "abd"), END], streamed=True)
    assert isinstance(outcome, Failed)
    assert outcome.code == "answer_retracted"
