"""Grants: rights of single principals on profiles."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from herma.common.lines import LINE_PATTERN
from herma.gateway.identity_bodies import GrantBody, GrantPage, NewGrant, grant_body
from herma.gateway.routes.parts import (
    REFUSALS,
    PageSize,
    PageToken,
    PrincipalManager,
    TheAuthority,
    known_id,
)

router = APIRouter(prefix="/v1/grants", tags=["identity"], responses=REFUSALS)


@router.post("", status_code=201)
async def add_grant(body: NewGrant, visitor: PrincipalManager, authority: TheAuthority) -> GrantBody:
    """Gives a principal a right on a profile.  Harmless when repeated."""
    made = await authority.principals.add_grant(
        visitor.caller, known_id(body.principal_id, "principal"), body.profile, body.right
    )
    return grant_body(made)


@router.get("")
async def list_grants(
    visitor: PrincipalManager,
    authority: TheAuthority,
    page_size: PageSize = 50,
    page_token: PageToken = "",
    principal: Annotated[str, Query(max_length=64)] = "",
    profile: Annotated[str, Query(max_length=200, pattern=LINE_PATTERN)] = "",
) -> GrantPage:
    """Lists grants, oldest first; of one `principal` or `profile` if named."""
    page = await authority.principals.list_grants(
        visitor.caller,
        known_id(principal, "principal") if principal else "",
        profile,
        page_size,
        page_token,
    )
    return GrantPage(
        items=[grant_body(grant) for grant in page.grants], next_page_token=page.next_page_token
    )


@router.delete("/{grant_id}", status_code=204)
async def remove_grant(grant_id: str, visitor: PrincipalManager, authority: TheAuthority) -> None:
    """Takes a grant back.  Harmless when repeated."""
    await authority.principals.remove_grant(visitor.caller, known_id(grant_id, "grant"))
