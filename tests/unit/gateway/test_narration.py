"""However a turn's text comes, a response's events are the same; anyone can go on after any of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.response_shapes import strict_event, strict_stream

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.common.ids import UuidV7Factory
from herma.gateway.responses.narration import Narration
from herma.gateway.responses.particulars import Particulars, particulars_of
from herma.gateway.responses.pieces import whole_pieces
from herma.gateway.responses.portrait import Portrait

Item = session_pb2.SubscribeResponse

TURN = str(UuidV7Factory()())
PORTRAIT = Portrait(TURN, "session", Particulars("default", metadata={"a": "b"}))
CHARACTERS = st.one_of(st.sampled_from(" \n\tab"), st.characters(exclude_categories=["Cs"]))
TEXT = st.text(CHARACTERS, max_size=60)


def event(kind: str, turn_id: str = TURN, **data: Any) -> Item:
    return Item(event=ledger_pb2.Event(kind=kind, turn_id=turn_id, data=json.dumps(data).encode()))


def delta(message_id: str, offset: int, text: str, turn_id: str = TURN) -> Item:
    return Item(delta=ledger_pb2.Delta(turn_id=turn_id, message_id=message_id, offset=offset, text=text))


def whole(message_id: str, content: str) -> Item:
    return event("message.completed", message_id=message_id, content=content, finish_reason="stop")


def discarded(message_id: str, reason: str = "provider_error", *, streamed: bool = True) -> Item:
    return event("message.discarded", message_id=message_id, reason=reason, streamed=streamed)


STARTED = event("turn.started", attempt=1)
END = event("turn.ended", state="completed", exit_reason="final_answer", usage={"input_tokens": 3})
STOPPED = event("turn.ended", state="interrupted", exit_reason="interrupted_by_user")


def narrated(items: list[Item], after: int = -1, *, streamed: bool = True) -> list[dict[str, Any]]:
    """All events of one stream."""
    narration = Narration(PORTRAIT, streamed=streamed, after=after)
    told = narration.beginning()
    for item in items:
        told += narration.take(item)
        if narration.broken:
            return [*told, *narration.error(narration.broken)]
        if narration.ending:
            break
    return told


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


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[Item], list[str]]:
    """A turn that ended well, and what it said."""
    contents = draw(st.lists(TEXT, min_size=1, max_size=3))
    items = [STARTED]
    for number, content in enumerate(contents):
        items += draw(message(f"m{number}", content))
    return [*items, END], contents


@given(turns())
def test_events_do_not_depend_on_how_text_comes(turn: tuple[list[Item], list[str]]) -> None:
    items, contents = turn
    events = narrated(items)
    response = strict_stream(events)
    assert response is not None
    said = [text for text in contents if text]
    assert [item.content[0].text for item in response.output] == said  # type: ignore[union-attr]
    replayed = [STARTED, *(whole(f"m{n}", content) for n, content in enumerate(contents)), END]
    assert narrated(replayed) == events


@given(turns(), st.data())
def test_a_stream_goes_on_after_any_event(
    turn: tuple[list[Item], list[str]], data: st.DataObject
) -> None:
    items, contents = turn
    events = narrated(items)
    replayed = [STARTED, *(whole(f"m{n}", content) for n, content in enumerate(contents)), END]
    after = data.draw(st.integers(0, len(events) - 1))
    for source in (items, replayed):
        assert narrated(source, after) == events[after + 1 :]


@given(st.text(CHARACTERS, max_size=200), st.integers(0, 200))
def test_cuts_follow_from_the_text_alone(text: str, end: int) -> None:
    pieces = whole_pieces(text, 0)
    assert "".join(pieces) == text[: sum(map(len, pieces))]
    assert len(text) - sum(map(len, pieces)) < 16
    early = whole_pieces(text[:end], 0)
    assert pieces[: len(early)] == early


def test_a_long_text_is_not_a_million_events() -> None:
    text = "a b " * 128 * 1024
    assert len(whole_pieces(text, 0)) < 15_000
    assert "".join(whole_pieces(text, 0)) == text


def test_whole_answers_are_those_of_streams() -> None:
    items = [STARTED, delta("m", 0, "one "), whole("m", "one two"), whole("n", ""), whole("o", "x"), END]
    narration = Narration(PORTRAIT, streamed=False)
    for item in items:
        assert not [e for e in narration.take(item) if "output" in e["type"]]
    assert narration.ending is not None
    body = PORTRAIT.ended(narration.ending, narration.output).model_dump()
    assert body == narrated(items)[-1]["response"]


@pytest.mark.parametrize("shown", [True, False])
def test_what_was_told_is_not_taken_back(shown: bool) -> None:
    text = "false start" if shown else "f"
    items = [STARTED, delta("m", 0, text), discarded("m"), whole("n", "right"), END]
    events = narrated(items)
    response = strict_stream(events)
    if shown:
        assert response is None
        assert events[-1]["code"] == "answer_retracted"
    else:
        assert response is not None
        assert response.output_text == "right"


def test_who_saw_void_text_is_not_told_that_the_answer_goes_on_from_it() -> None:
    live = narrated([STARTED, delta("m", 0, "one two three "), END])[:-1]
    # Later, the text of the first attempt is not kept; only that there was some.
    replayed = [STARTED, discarded("m"), whole("n", "uno dos tres"), END]
    for seen in range(len(live)):
        events = narrated(replayed, seen)
        if seen < 2:
            assert events[-1]["type"] == "response.completed"
        else:
            assert [(e["sequence_number"], e["code"]) for e in events] == [(seen + 1, "answer_retracted")]
    # An attempt that said nothing is no reason to break off.
    quiet = [STARTED, discarded("m", streamed=False), whole("n", "uno dos tres"), END]
    full = narrated(quiet)
    for seen in range(len(full)):
        assert narrated(quiet, seen) == full[seen + 1 :]


def test_a_turn_that_is_stopped_in_mid_text_ends_for_everybody() -> None:
    items = [STARTED, delta("m", 0, "one two three "), discarded("m", "turn_ended"), STOPPED]
    events = narrated(items)
    response = strict_stream(events)
    assert response is not None
    assert (response.status, response.output, response.error) == ("cancelled", [], None)
    replayed = [STARTED, discarded("m", "turn_ended"), STOPPED]
    for seen in range(len(events) - 1):
        last = narrated(replayed, seen)[-1]
        assert last["response"] == events[-1]["response"]
        assert last["sequence_number"] == max(seen + 1, 2)


def test_a_number_beyond_the_end_is_an_error_that_ends_the_stream() -> None:
    items = [STARTED, whole("m", "x"), END]
    last = len(narrated(items)) - 1
    assert narrated(items, last) == []
    (event_,) = narrated(items, last + 1)
    strict_event(event_)
    assert (event_["code"], event_["sequence_number"]) == ("invalid_argument", last + 2)


def test_a_turn_that_never_ran_has_only_a_beginning_and_an_end() -> None:
    cancelled = event("turn.ended", state="cancelled", exit_reason="interrupted_by_user")
    events = narrated([cancelled])
    assert [e["type"] for e in events] == ["response.created", "response.failed"]
    strict_stream(events)


@given(
    st.builds(
        Particulars,
        model=st.text(),
        background=st.booleans(),
        previous_response_id=st.none() | st.text(),
        has_conversation=st.booleans(),
        metadata=st.dictionaries(st.text(), st.text()),
        user=st.none() | st.text(),
    )
)
def test_particulars_are_kept_as_they_are(particulars: Particulars) -> None:
    assert particulars_of(particulars.memo) == particulars


def test_a_turn_of_another_entrance_has_none() -> None:
    for memo in ("", "{}", '{"entrance": "other"}'):
        assert particulars_of(memo) is None
