"""Profiles: the agents of a tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from herma.common.errors import InvalidArgument
from herma.gateway.auth import Visitor, visitor_of
from herma.gateway.profile_bodies import (
    AppliedProfile,
    ProfileBody,
    ProfilePage,
    ProfileSpecBody,
    outcome_word,
    profile_fields,
    spec_text,
)
from herma.gateway.routes.parts import REFUSALS, Agent, PageSize, PageToken, TheAuthority

router = APIRouter(prefix="/v1/profiles", tags=["profiles"], responses=REFUSALS)


async def _editor_of(visitor: Annotated[Visitor, Depends(visitor_of)]) -> Visitor:
    """A visitor that may change profiles."""
    visitor.need("profiles")
    return visitor


async def _expected_version_of(if_match: Annotated[str | None, Header(max_length=64)] = None) -> int:
    """The version in `If-Match`, as `ETag` gave it; 0 without one."""
    if if_match is None:
        return 0
    text = if_match.strip().removeprefix('"').removesuffix('"')
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise InvalidArgument("no such version", fields={"If-Match": "must be a version's number"})
    return int(text)


@router.get("")
async def list_profiles(
    visitor: Agent, authority: TheAuthority, page_size: PageSize = 50, page_token: PageToken = ""
) -> ProfilePage:
    """Lists your tenant's profiles by name, at their newest versions."""
    page = await authority.profiles.list(visitor.caller, page_size, page_token)
    return ProfilePage(
        items=[ProfileBody(**profile_fields(profile)) for profile in page.profiles],
        next_page_token=page.next_page_token,
    )


@router.get("/{name}")
async def get_profile(
    name: str,
    visitor: Agent,
    authority: TheAuthority,
    response: Response,
    version: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> ProfileBody:
    """Reads a profile, at its newest version if none is named; `ETag` is the version."""
    found = await authority.profiles.get(visitor.caller, name, version)
    response.headers["ETag"] = f'"{found.version}"'
    return ProfileBody(**profile_fields(found))


@router.put("/{name}", responses={201: {"model": AppliedProfile, "description": "It is new."}})
async def apply_profile(
    name: str,
    body: ProfileSpecBody,
    visitor: Annotated[Visitor, Depends(_editor_of)],
    authority: TheAuthority,
    expected_version: Annotated[int, Depends(_expected_version_of)],
    response: Response,
) -> AppliedProfile:
    """Makes a profile, or a new version of it if the spec differs.  Harmless when repeated.

    With `If-Match`, refused as `PROFILE_CHANGED` unless that is the newest version.
    """
    applied = await authority.profiles.apply(visitor.caller, name, spec_text(body), expected_version)
    outcome = outcome_word(applied.outcome)
    response.status_code = 201 if outcome == "created" else 200
    response.headers["ETag"] = f'"{applied.profile.version}"'
    return AppliedProfile(**profile_fields(applied.profile), outcome=outcome)
