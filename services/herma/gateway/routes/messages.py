"""A session's messages: what was said, and the next thing to say."""

from __future__ import annotations

from fastapi import APIRouter

from herma.common import telemetry
from herma.gateway.bodies import Admitted, MessagePage, NewMessage
from herma.gateway.routes.parts import (
    REFUSALS,
    Agent,
    IdempotencyKey,
    PageSize,
    PageToken,
    Reader,
    TheAuthority,
    known_id,
)
from herma.gateway.wire import message_body

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=REFUSALS)


@router.post("/{session_id}/messages", status_code=202)
async def submit_message(
    session_id: str,
    body: NewMessage,
    visitor: Agent,
    authority: TheAuthority,
    idempotency_key: IdempotencyKey,
) -> Admitted:
    """Admits a message as a turn; follow it on `/events` from `cursor`."""
    admitted = await authority.submit(
        visitor.caller,
        known_id(session_id, "session"),
        body.content,
        body.mode,
        idempotency_key,
        telemetry.traceparent(),
    )
    return Admitted(
        turn_id=admitted.turn_id,
        session_id=admitted.session_id,
        seq=admitted.cursor,
        cursor=admitted.cursor,
    )


@router.get("/{session_id}/messages")
async def list_messages(
    session_id: str,
    visitor: Reader,
    authority: TheAuthority,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> MessagePage:
    """Reads a transcript in order."""
    page = await authority.list_messages(
        visitor.caller, known_id(session_id, "session"), page_size, page_token
    )
    return MessagePage(
        items=[message_body(message) for message in page.messages],
        next_page_token=page.next_page_token,
    )
