"""OpenAI's own types of the Responses API, held against what Herma sends: nothing missing or more."""

from __future__ import annotations

from typing import Any, get_args

from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_item_list import ResponseItemList
from pydantic import BaseModel

_EVENTS: dict[str, type[BaseModel]] = {
    get_args(event.model_fields["type"].annotation)[0]: event
    for event in get_args(get_args(ResponseStreamEvent)[0])
}


def strict(model: type[BaseModel], data: Any) -> Any:
    """The object, if it is one of this type."""
    found = model.model_validate(data, strict=True)
    _check_nothing_more(found, model.__name__)
    return found


def strict_response(data: Any) -> Response:
    """A response."""
    found: Response = strict(Response, data)
    assert found.status is not None
    assert (found.usage is None) == (found.status in ("queued", "in_progress"))
    assert (found.error is not None) == (found.status == "failed")
    assert (found.incomplete_details is not None) == (found.status == "incomplete")
    assert (found.completed_at is not None) == (found.status == "completed")
    return found


def strict_items(data: Any) -> ResponseItemList:
    """A page of input items."""
    found: ResponseItemList = strict(ResponseItemList, data)
    return found


def strict_event(data: Any) -> Any:
    """One event of a stream."""
    return strict(_EVENTS[data["type"]], data)


def strict_stream(events: list[Any], first: int = 0) -> Response | None:
    """Checks a stream's events, each by itself and together; the response at its end, if it has one.

    Args:
        first: The number of its first event: 0 unless it goes on from another stream.
    """
    found = [strict_event(event) for event in events]
    assert [event.sequence_number for event in found] == list(range(first, first + len(found)))
    if first:
        return strict_response(events[-1]["response"]) if "response" in events[-1] else None
    kinds = [event.type for event in found]
    assert kinds[0] == "response.created"
    assert kinds.count("response.created") == 1
    ends = {"response.completed", "response.failed", "response.incomplete", "error"}
    assert [kind in ends for kind in kinds] == [False] * (len(kinds) - 1) + [True]
    said = _items_of(found)
    if kinds[-1] == "error":
        return None
    last = strict_response(events[-1]["response"])
    assert [(item.id, item.content[0].text) for item in last.output] == said  # type: ignore[union-attr]
    return last


def _items_of(events: list[Any]) -> list[tuple[str, str]]:
    """What the items that were completed say; each is told in order and as a whole."""
    items: list[tuple[str, str]] = []
    told: list[Any] = []
    for event in events:
        if not hasattr(event, "output_index"):
            # Only the end of the stream may come while an item is open.
            assert not told or event is events[-1]
            continue
        assert event.output_index == len(items)
        told.append(event)
        if event.type == "response.output_item.done":
            items.append(_item_of(told))
            told = []
    return items


def _item_of(told: list[Any]) -> tuple[str, str]:
    added, part, *deltas, text, part_done, done = told
    assert [event.type.removeprefix("response.") for event in told] == [
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * len(deltas),
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ]
    assert deltas
    assert {event.item_id for event in (part, *deltas, text, part_done)} == {added.item.id}
    assert (added.item.status, added.item.content, part.part.text) == ("in_progress", [], "")
    whole = "".join(delta.delta for delta in deltas)
    assert (done.item.id, done.item.status) == (added.item.id, "completed")
    assert [text.text, part_done.part.text, *(p.text for p in done.item.content)] == [whole] * 3
    return added.item.id, whole


def _check_nothing_more(value: Any, place: str) -> None:
    if isinstance(value, BaseModel):
        assert not value.model_extra, f"{place}: {sorted(value.model_extra or {})}"
        for name in type(value).model_fields:
            _check_nothing_more(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            _check_nothing_more(entry, f"{place}[{number}]")
