"""Sessions and their messages."""

from __future__ import annotations

from fastapi import APIRouter

from herma.common import telemetry
from herma.gateway.routes.parts import (
    REFUSALS,
    Agent,
    IdempotencyKey,
    PageSize,
    PageToken,
    TheAuthority,
    known_id,
)
from herma.gateway.shapes import (
    Admitted,
    MessagePage,
    NewMessage,
    NewSession,
    SessionBody,
    SessionPage,
    message_body,
    session_body,
)

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=REFUSALS)


@router.post("", status_code=201)
async def create_session(
    body: NewSession, visitor: Agent, authority: TheAuthority, idempotency_key: IdempotencyKey
) -> SessionBody:
    """Makes a session; the same `key` answers the same session."""
    session = await authority.create_session(
        visitor.caller, body.profile, body.key, body.title, idempotency_key
    )
    return session_body(session)


@router.get("")
async def list_sessions(
    visitor: Agent, authority: TheAuthority, page_size: PageSize = 50, page_token: PageToken = ""
) -> SessionPage:
    """Lists your sessions, newest first."""
    page = await authority.list_sessions(visitor.caller, page_size, page_token)
    return SessionPage(
        items=[session_body(session) for session in page.sessions],
        next_page_token=page.next_page_token,
    )


@router.get("/{session_id}")
async def get_session(session_id: str, visitor: Agent, authority: TheAuthority) -> SessionBody:
    """Reads a session."""
    return session_body(await authority.get_session(visitor.caller, known_id(session_id, "session")))


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
    visitor: Agent,
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
