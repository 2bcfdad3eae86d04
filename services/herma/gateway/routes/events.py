"""A session's event stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from herma.common.errors import CursorOutOfRange, InvalidArgument, NotFound
from herma.gateway.auth import Visitor, visitor_with
from herma.gateway.authority import Authority
from herma.gateway.following import follow
from herma.gateway.routes.parts import REFUSALS, Reader, TheAuthority, known_id
from herma.gateway.sse import MEDIA_TYPE, EventStream, event_frames

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=REFUSALS)


@router.get(
    "/{session_id}/events",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {}}, "description": "Server-sent events."}},
)
async def stream_events(
    session_id: str,
    request: Request,
    visitor: Reader,
    authority: TheAuthority,
    after: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    turn: Annotated[str, Query(max_length=64)] = "",
    last_event_id: Annotated[str | None, Header(max_length=32)] = None,
) -> EventStream:
    """Replays the events after `Last-Event-ID` (else `after`, else all), then follows.

    With `turn`, the stream ends after that turn.
    """
    start = _cursor(after, last_event_id)
    session_id = known_id(session_id, "session")
    turn_id = known_id(turn, "turn") if turn else ""
    await _check(authority, visitor, session_id, turn_id, start)
    pace = request.app.state.pace
    items = follow(
        lambda seq: authority.subscribe(visitor.caller, session_id, seq, turn_id),
        start,
        ends=bool(turn_id),
        pace=pace,
    )
    return EventStream(
        event_frames(items),
        recheck=lambda: visitor_with(request, "read"),
        stopping=request.app.state.stopping,
        pace=pace,
    )


def _cursor(after: int | None, last_event_id: str | None) -> int:
    """Where to start.  What browsers send again by themselves wins over the address."""
    if not last_event_id:
        return after or 0
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19):
        raise InvalidArgument("no such cursor", fields={"Last-Event-ID": "must be a number"})
    return int(last_event_id)


async def _check(
    authority: Authority, visitor: Visitor, session_id: str, turn_id: str, start: int
) -> None:
    """Refuses while a refusal can still be a plain HTTP answer.

    Raises:
        NotFound: when the session or turn is not the caller's.
        CursorOutOfRange: for a cursor beyond the newest event.
    """
    session = await authority.get_session(visitor.caller, session_id)
    if turn_id and (await authority.get_turn(visitor.caller, turn_id)).session_id != session_id:
        raise NotFound("no such turn", reason="TURN_NOT_FOUND")
    if start > session.last_seq:
        raise CursorOutOfRange("the cursor lies beyond the newest event")
