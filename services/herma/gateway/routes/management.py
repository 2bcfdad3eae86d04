"""Tenants and API keys."""

from __future__ import annotations

from fastapi import APIRouter

from herma.gateway.routes.parts import (
    REFUSALS,
    IdempotencyKey,
    KeyHolder,
    Operator,
    TheAuthority,
    known_id,
)
from herma.gateway.shapes import (
    CreatedKey,
    CreatedTenant,
    KeyBody,
    KeyPage,
    NewKey,
    NewTenant,
    TenantBody,
    key_body,
)

router = APIRouter(prefix="/v1", tags=["management"], responses=REFUSALS)


@router.post("/tenants", status_code=201)
async def create_tenant(
    body: NewTenant, visitor: Operator, authority: TheAuthority, idempotency_key: IdempotencyKey
) -> CreatedTenant:
    """Makes a tenant; answers its owner's key, which is shown only here."""
    made = await authority.create_tenant(visitor.caller, body.name, idempotency_key)
    return CreatedTenant(tenant=TenantBody(id=made.tenant_id, name=made.name), key=made.key)


@router.post("/keys", status_code=201)
async def create_key(body: NewKey, visitor: KeyHolder, authority: TheAuthority) -> CreatedKey:
    """Makes a key of your own with at most your scopes; `secret` is shown only here."""
    made = await authority.create_key(
        visitor.caller, visitor.key_id, body.name, body.scopes, body.expires_at
    )
    return CreatedKey(**key_body(made.key).model_dump(), secret=made.secret)


@router.get("/keys")
async def list_keys(visitor: KeyHolder, authority: TheAuthority) -> KeyPage:
    """Lists your keys."""
    return KeyPage(items=[key_body(key) for key in await authority.list_keys(visitor.caller)])


@router.delete("/keys/{key_id}")
async def revoke_key(key_id: str, visitor: KeyHolder, authority: TheAuthority) -> KeyBody:
    """Revokes a key."""
    return key_body(await authority.revoke_key(visitor.caller, known_id(key_id, "key")))
