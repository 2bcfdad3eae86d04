"""Who you are."""

from __future__ import annotations

from fastapi import APIRouter

from herma.gateway.identity_bodies import WhoAmI, key_body, principal_body, tenant_body
from herma.gateway.routes.parts import REFUSALS, Anybody, TheAuthority

router = APIRouter(prefix="/v1/whoami", tags=["identity"], responses=REFUSALS)


@router.get("")
async def who_am_i(visitor: Anybody, authority: TheAuthority) -> WhoAmI:
    """Says who you are, and what you may."""
    found = await authority.identities.who_am_i(visitor.caller)
    return WhoAmI(
        tenant=tenant_body(found.tenant),
        principal=principal_body(found.principal),
        key=key_body(found.key) if found.HasField("key") else None,
        scopes=sorted(visitor.scopes),
    )
