"""Sessions."""

from __future__ import annotations

from fastapi import APIRouter

from herma.gateway.bodies import NewSession, SessionBody, SessionPage
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
from herma.gateway.wire import session_body

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
    visitor: Reader, authority: TheAuthority, page_size: PageSize = 50, page_token: PageToken = ""
) -> SessionPage:
    """Lists your sessions, newest first."""
    page = await authority.list_sessions(visitor.caller, page_size, page_token)
    return SessionPage(
        items=[session_body(session) for session in page.sessions],
        next_page_token=page.next_page_token,
    )


@router.get("/{session_id}")
async def get_session(session_id: str, visitor: Reader, authority: TheAuthority) -> SessionBody:
    """Reads a session."""
    return session_body(await authority.get_session(visitor.caller, known_id(session_id, "session")))


@router.delete("/{session_id}", status_code=204)
async def delete_session(session_id: str, visitor: Agent, authority: TheAuthority) -> None:
    """Deletes a session with everything in it, for good.  Harmless when repeated.

    A turn under way is interrupted first.  Requests that were made in it are still answered by their
    idempotency keys.
    """
    await authority.delete_session(visitor.caller, known_id(session_id, "session"))
