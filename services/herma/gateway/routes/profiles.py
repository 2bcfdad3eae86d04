"""Profiles: the agents of a tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from herma.common.errors import NotFound
from herma.common.lines import LABEL_PATTERN, is_line
from herma.gateway.profile_bodies import (
    AppliedProfile,
    ProfileBody,
    ProfilePage,
    ProfileSpecBody,
    outcome_word,
    profile_fields,
    spec_text,
)
from herma.gateway.routes.parts import (
    CHANGED,
    REFUSALS,
    Editor,
    ExpectedVersion,
    PageSize,
    PageToken,
    Reader,
    TheAuthority,
)

router = APIRouter(prefix="/v1/profiles", tags=["profiles"], responses=REFUSALS)


@router.get("")
async def list_profiles(
    visitor: Reader, authority: TheAuthority, page_size: PageSize = 50, page_token: PageToken = ""
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
    visitor: Reader,
    authority: TheAuthority,
    response: Response,
    version: Annotated[int, Query(ge=0, lt=2**31)] = 0,
) -> ProfileBody:
    """Reads a profile, at its newest version if none is named; `ETag` is the version."""
    if not is_line(name):
        raise NotFound("no such profile", reason="PROFILE_NOT_FOUND")
    found = await authority.profiles.get(visitor.caller, name, version)
    response.headers["ETag"] = f'"{found.version}"'
    return ProfileBody(**profile_fields(found))


@router.put("/{name}", responses={201: {"model": AppliedProfile, "description": "It is new."}, **CHANGED})
async def apply_profile(
    name: Annotated[str, Path(pattern=LABEL_PATTERN, max_length=63)],
    body: ProfileSpecBody,
    visitor: Editor,
    authority: TheAuthority,
    expected_version: ExpectedVersion,
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
