"""A session's event stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from herma.common.errors import InvalidArgument
from herma.gateway.auth import visitor_of
from herma.gateway.routes.parts import REFUSALS, Agent, TheAuthority, known_id
from herma.gateway.sse import EventStream

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=REFUSALS)


@router.get(
    "/{session_id}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
)
async def stream_events(
    session_id: str,
    request: Request,
    visitor: Agent,
    authority: TheAuthority,
    after: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    turn: Annotated[str, Query(max_length=64)] = "",
    last_event_id: Annotated[str | None, Header(max_length=32)] = None,
) -> StreamingResponse:
    """Replays the events after `Last-Event-ID` (else `after`, else all), then follows.

    With `turn`, the stream ends after that turn.
    """
    start = after or 0
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19):
            raise InvalidArgument("no such cursor", fields={"Last-Event-ID": "must be a number"})
        start = int(last_event_id)
    stream = EventStream(
        authority,
        visitor.caller,
        known_id(session_id, "session"),
        known_id(turn, "turn") if turn else "",
        lambda: visitor_of(request),
        request.app.state.stopping,
    )
    return StreamingResponse(
        await stream.open(start),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
