"""Issuers of OpenID Connect tokens that a tenant accepts."""

from __future__ import annotations

from fastapi import APIRouter

from herma.api.issuer.v1 import issuer_pb2
from herma.gateway.identity_bodies import IssuerBody, IssuerPage, NewIssuer, issuer_body
from herma.gateway.routes.parts import (
    REFUSALS,
    PageSize,
    PageToken,
    PrincipalManager,
    TheAuthority,
    known_id,
)

router = APIRouter(prefix="/v1/issuers", tags=["identity"], responses=REFUSALS)


@router.post("", status_code=201)
async def register_issuer(
    body: NewIssuer, visitor: PrincipalManager, authority: TheAuthority
) -> IssuerBody:
    """Accepts an issuer's tokens for an audience from now on, with at most your role.

    Their bearers become principals of your tenant, known by issuer and subject.
    """
    terms = issuer_pb2.Issuer(
        issuer=body.issuer,
        audience=body.audience,
        algorithms=body.algorithms,
        role_claim=body.role_claim,
        roles=body.roles,
        default_role=body.default_role or "",
    )
    return issuer_body(await authority.issuers.register(visitor.caller, terms))


@router.get("")
async def list_issuers(
    visitor: PrincipalManager,
    authority: TheAuthority,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> IssuerPage:
    """Lists the issuers that your tenant accepts, oldest first."""
    page = await authority.issuers.list(visitor.caller, page_size, page_token)
    return IssuerPage(
        items=[issuer_body(issuer) for issuer in page.issuers], next_page_token=page.next_page_token
    )


@router.delete("/{issuer_id}", status_code=204)
async def remove_issuer(issuer_id: str, visitor: PrincipalManager, authority: TheAuthority) -> None:
    """Accepts none of its tokens any more; its principals stay.  Harmless when repeated."""
    await authority.issuers.remove(visitor.caller, known_id(issuer_id, "issuer"))
