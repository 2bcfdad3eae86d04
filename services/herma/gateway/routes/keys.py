"""API keys."""

from __future__ import annotations

from fastapi import APIRouter, Request

from herma.gateway.auth import Doorkeeper
from herma.gateway.bodies import CreatedKey, KeyBody, KeyPage, NewKey
from herma.gateway.routes.parts import (
    REFUSALS,
    IdempotencyKey,
    KeyHolder,
    TheAuthority,
    known_id,
)
from herma.gateway.wire import key_body

router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=REFUSALS)


@router.post("", status_code=201)
async def create_key(
    body: NewKey, visitor: KeyHolder, authority: TheAuthority, idempotency_key: IdempotencyKey
) -> CreatedKey:
    """Makes a key of your own with at most your scopes; `secret` is shown only here."""
    made = await authority.create_key(
        visitor.caller, visitor.key_id, body.name, body.scopes, body.expires_at, idempotency_key
    )
    return CreatedKey(**key_body(made.key).model_dump(), secret=made.secret)


@router.get("")
async def list_keys(visitor: KeyHolder, authority: TheAuthority) -> KeyPage:
    """Lists your keys."""
    return KeyPage(items=[key_body(key) for key in await authority.list_keys(visitor.caller)])


@router.delete("/{key_id}")
async def revoke_key(
    key_id: str, request: Request, visitor: KeyHolder, authority: TheAuthority
) -> KeyBody:
    """Revokes a key.  Harmless when repeated."""
    revoked = await authority.revoke_key(visitor.caller, known_id(key_id, "key"))
    doorkeeper: Doorkeeper = request.app.state.doorkeeper
    doorkeeper.forget(revoked.id)
    return key_body(revoked)
