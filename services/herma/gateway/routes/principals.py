"""Principals."""

from __future__ import annotations

from fastapi import APIRouter, Response

from herma.api.principal.v1 import principal_pb2
from herma.gateway.identity_bodies import (
    NewPrincipal,
    PrincipalBody,
    PrincipalChange,
    PrincipalPage,
    principal_body,
)
from herma.gateway.routes.parts import (
    CHANGED,
    REFUSALS,
    ExpectedVersion,
    PageSize,
    PageToken,
    PrincipalManager,
    TheAuthority,
    known_id,
)

router = APIRouter(prefix="/v1/principals", tags=["identity"], responses=REFUSALS)


@router.post("", status_code=201)
async def create_principal(
    body: NewPrincipal, visitor: PrincipalManager, authority: TheAuthority, response: Response
) -> PrincipalBody:
    """Makes a service account with at most your role; make it a key with `POST /v1/keys`.

    Users are not made: they come with a token of an accepted issuer.
    """
    made = await authority.principals.create(visitor.caller, body.subject, body.name, body.role)
    return _tagged(made, response)


@router.get("")
async def list_principals(
    visitor: PrincipalManager,
    authority: TheAuthority,
    page_size: PageSize = 50,
    page_token: PageToken = "",
) -> PrincipalPage:
    """Lists your tenant's principals, oldest first."""
    page = await authority.principals.list(visitor.caller, page_size, page_token)
    return PrincipalPage(
        items=[principal_body(principal) for principal in page.principals],
        next_page_token=page.next_page_token,
    )


@router.get("/{principal_id}")
async def get_principal(
    principal_id: str, visitor: PrincipalManager, authority: TheAuthority, response: Response
) -> PrincipalBody:
    """Reads a principal; `ETag` is its version."""
    found = await authority.principals.get(visitor.caller, known_id(principal_id, "principal"))
    return _tagged(found, response)


@router.patch("/{principal_id}", responses=CHANGED)
async def change_principal(
    principal_id: str,
    body: PrincipalChange,
    visitor: PrincipalManager,
    authority: TheAuthority,
    expected_version: ExpectedVersion,
    response: Response,
) -> PrincipalBody:
    """Changes name, role or whether it may act.  Harmless when repeated.

    Whoever is disabled has no rights from then on: keys and tokens stop working, open streams end within
    30 s.  With `If-Match`, refused as `PRINCIPAL_CHANGED` unless that is the newest version.
    """
    changed = await authority.principals.change(
        visitor.caller,
        known_id(principal_id, "principal"),
        body.name,
        body.role,
        body.disabled,
        expected_version,
    )
    return _tagged(changed, response)


def _tagged(principal: principal_pb2.Principal, response: Response) -> PrincipalBody:
    response.headers["ETag"] = f'"{principal.version}"'
    return principal_body(principal)
