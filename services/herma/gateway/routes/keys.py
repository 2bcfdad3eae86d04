"""API keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from herma.common.errors import PermissionDenied
from herma.gateway.auth import Doorkeeper, Visitor
from herma.gateway.identity_bodies import (
    CreatedKey,
    KeyBody,
    KeyPage,
    NewKey,
    RotatedKey,
    Rotation,
    key_body,
)
from herma.gateway.routes.parts import (
    REFUSALS,
    IdempotencyKey,
    KeyHolder,
    PageSize,
    PageToken,
    TheAuthority,
    known_id,
)

router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=REFUSALS)


@router.post("", status_code=201)
async def create_key(
    body: NewKey, visitor: KeyHolder, authority: TheAuthority, idempotency_key: IdempotencyKey
) -> CreatedKey:
    """Makes a key with at most your scopes; `secret` is shown only here.

    For another principal, who must be one that you manage, with at most its role's scopes too.
    """
    made = await authority.identities.create_key(
        visitor.caller,
        body.name,
        body.scopes,
        body.expires_at,
        idempotency_key,
        _of(visitor, body.principal_id),
        visitor.has("principals"),
    )
    return CreatedKey(**key_body(made.key).model_dump(), secret=made.secret)


@router.get("")
async def list_keys(
    visitor: KeyHolder,
    authority: TheAuthority,
    page_size: PageSize = 50,
    page_token: PageToken = "",
    principal: Annotated[str, Query(max_length=64)] = "",
) -> KeyPage:
    """Lists your keys, or those of a `principal` that you manage, oldest first."""
    page = await authority.identities.list_keys(
        visitor.caller,
        _of(visitor, principal),
        page_size,
        page_token,
        visitor.has("principals"),
    )
    return KeyPage(items=[key_body(key) for key in page.keys], next_page_token=page.next_page_token)


@router.post("/{key_id}/rotate", status_code=201)
async def rotate_key(
    key_id: str,
    body: Rotation,
    request: Request,
    visitor: KeyHolder,
    authority: TheAuthority,
    idempotency_key: IdempotencyKey,
) -> RotatedKey:
    """Makes a key like this one, which works for a while longer; `secret` is shown only here."""
    made = await authority.identities.rotate_key(
        visitor.caller,
        known_id(key_id, "key"),
        body.overlap_seconds,
        idempotency_key,
        visitor.has("principals"),
    )
    doorkeeper: Doorkeeper = request.app.state.doorkeeper
    doorkeeper.forget(made.rotated.id)
    return RotatedKey(
        **key_body(made.key).model_dump(), secret=made.secret, rotated=key_body(made.rotated)
    )


@router.delete("/{key_id}")
async def revoke_key(
    key_id: str, request: Request, visitor: KeyHolder, authority: TheAuthority
) -> KeyBody:
    """Revokes a key of yours or of a principal that you manage.  Harmless when repeated."""
    revoked = await authority.identities.revoke_key(
        visitor.caller, known_id(key_id, "key"), visitor.has("principals")
    )
    doorkeeper: Doorkeeper = request.app.state.doorkeeper
    doorkeeper.forget(revoked.id)
    return key_body(revoked)


def _of(visitor: Visitor, principal: str) -> str:
    if not principal:
        return ""
    principal_id = known_id(principal, "principal")
    if principal_id != visitor.caller.principal_id and not visitor.has("principals"):
        raise PermissionDenied("the scope 'principals' is missing", reason="SCOPE_MISSING")
    return principal_id
