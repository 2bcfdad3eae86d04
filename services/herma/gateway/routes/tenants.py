"""Tenants, for the operator."""

from __future__ import annotations

from fastapi import APIRouter

from herma.gateway.identity_bodies import (
    CreatedTenant,
    NewTenant,
    NewTenantBody,
    TenantPage,
    tenant_body,
)
from herma.gateway.routes.parts import (
    REFUSALS,
    IdempotencyKey,
    Operator,
    PageSize,
    PageToken,
    TheAuthority,
)

router = APIRouter(prefix="/v1/tenants", tags=["tenants"], responses=REFUSALS)


@router.post("", status_code=201)
async def create_tenant(
    body: NewTenant, visitor: Operator, authority: TheAuthority, idempotency_key: IdempotencyKey
) -> CreatedTenant:
    """Makes a tenant; answers its owner's key, which is shown only here."""
    made = await authority.identities.create_tenant(visitor.caller, body.name, idempotency_key)
    return CreatedTenant(tenant=NewTenantBody(id=made.tenant_id, name=made.name), key=made.key)


@router.get("")
async def list_tenants(
    visitor: Operator, authority: TheAuthority, page_size: PageSize = 50, page_token: PageToken = ""
) -> TenantPage:
    """Lists the tenants of the installation by name."""
    page = await authority.identities.list_tenants(visitor.caller, page_size, page_token)
    return TenantPage(
        items=[tenant_body(tenant) for tenant in page.tenants], next_page_token=page.next_page_token
    )
