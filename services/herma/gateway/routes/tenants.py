"""Tenants."""

from __future__ import annotations

from fastapi import APIRouter

from herma.gateway.bodies import CreatedTenant, NewTenant, TenantBody
from herma.gateway.routes.parts import REFUSALS, IdempotencyKey, Operator, TheAuthority

router = APIRouter(prefix="/v1/tenants", tags=["tenants"], responses=REFUSALS)


@router.post("", status_code=201)
async def create_tenant(
    body: NewTenant, visitor: Operator, authority: TheAuthority, idempotency_key: IdempotencyKey
) -> CreatedTenant:
    """Makes a tenant; answers its owner's key, which is shown only here."""
    made = await authority.create_tenant(visitor.caller, body.name, idempotency_key)
    return CreatedTenant(tenant=TenantBody(id=made.tenant_id, name=made.name), key=made.key)
