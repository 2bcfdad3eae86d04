"""One subscriber's view of a session: replays, then follows, without gap or repeat."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import UUID

from herma.common.errors import CursorOutOfRange
from herma.session_authority.bells import Belfry
from herma.session_authority.domain.model import Caller, Delta, Event
from herma.session_authority.store.events import READ_AT_MOST, DeltaCursor, EventLog

# How long a lost ring may delay an event.
_POLL_SECONDS = 2.0


class Subscriptions:
    """Makes subscriptions."""

    def __init__(self, log: EventLog, belfry: Belfry) -> None:
        self._log = log
        self._belfry = belfry

    async def follow(
        self, caller: Caller, session_id: UUID, after: int, turn_id: UUID | None
    ) -> AsyncIterator[Event | Delta]:
        """Events after a cursor in order, with streamed text in between.

        Text belongs to the newest `message.started` and ends with its completion or discard.  Ends
        after `turn_id`'s `turn.ended`, at once if that lies behind the cursor.

        Raises:
            NotFound: when the session or turn is not the caller's, or once it is deleted.
            CursorOutOfRange: for a cursor beyond the newest event.
        """
        start = await self._log.vantage(caller, session_id, turn_id)
        if after > start.last_seq:
            raise CursorOutOfRange("the cursor lies beyond the newest event")
        if start.ended_seq is not None and start.ended_seq <= after:
            return
        cursor: DeltaCursor | None = None
        if start.open_message_id is not None and start.open_turn_id is not None:
            cursor = DeltaCursor(start.open_turn_id, start.open_message_id)
        seq = after
        # Text of a message whose start is still to be replayed waits for that replay.
        shown_from = start.last_seq
        idle = False
        with self._belfry.session(session_id) as bell:
            while True:
                ticket = bell.ticket()
                events, deltas = await self._log.read(
                    caller.tenant_id,
                    session_id,
                    seq,
                    cursor if seq >= shown_from else None,
                    suspect=idle,
                )
                if deltas and not events:
                    for delta in deltas:
                        yield delta
                    last = deltas[-1]
                    cursor = DeltaCursor(last.turn_id, last.message_id, last.offset + len(last.text))
                for event in events:
                    seq = event.seq
                    cursor = _next_cursor(event, cursor)
                    yield event
                    if event.kind == "turn.ended" and event.turn_id == turn_id:
                        return
                # Who is woken twice for nothing may follow a session that is gone.
                idle = not events and not deltas
                # What comes after this read rings after the ticket. Only text that the read did not ask
                # for, or events that it had no room for, may be there already.
                if not (events and (cursor is not None or len(events) == READ_AT_MOST)):
                    await bell.wait(ticket, _POLL_SECONDS)


def _next_cursor(event: Event, cursor: DeltaCursor | None) -> DeltaCursor | None:
    if event.kind == "message.started":
        return DeltaCursor(event.turn_id, UUID(json.loads(event.data)["message_id"]))
    if event.kind in ("message.completed", "message.discarded"):
        return None
    return cursor
