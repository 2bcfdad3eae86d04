"""Grants: a profile that is not open exists for those only who were given a right on it."""

from __future__ import annotations

import pytest
from tests.component.session_authority.authority import Authority, Owner

from herma.common.errors import NotFound, PermissionDenied
from herma.session_authority.domain.profile import Outcome, ProfileSpec
from herma.session_authority.domain.rights import ProfileRight, Role

CLOSED = ProfileSpec(access="granted")


async def names(authority: Authority, who: Owner) -> list[str]:
    return [profile.name for profile in await authority.profiles.list(who.caller, "", 10)]


async def grant(authority: Authority, owner: Owner, who: Owner, right: ProfileRight) -> None:
    await authority.grants.add(owner.caller, who.caller.principal_id, "closed", right)


async def test_a_closed_profile_does_not_exist_without_a_grant(authority: Authority) -> None:
    owner = await authority.owner()
    await authority.profiles.apply(owner.caller, "closed", CLOSED)
    member = await authority.colleague(owner)
    assert await names(authority, owner) == ["closed", "default"]
    assert await names(authority, member) == ["default"]
    for attempt in (
        authority.profiles.get(member.caller, "closed"),
        authority.sessions.create(member.caller, "closed", "", "", ""),
    ):
        with pytest.raises(NotFound) as caught:
            await attempt
        assert caught.value.reason == "PROFILE_NOT_FOUND"


@pytest.mark.parametrize("right", list(ProfileRight))
async def test_any_right_lets_use_until_it_is_taken_back(
    authority: Authority, right: ProfileRight
) -> None:
    owner = await authority.owner()
    await authority.profiles.apply(owner.caller, "closed", CLOSED)
    member = await authority.colleague(owner)
    await grant(authority, owner, member, right)
    await grant(authority, owner, member, right)
    session = await authority.sessions.create(member.caller, "closed", "", "", "")
    await authority.submit(member.caller, session.id)
    (given,) = await authority.grants.list(owner.caller, member.caller.principal_id, "", None, 10)
    assert (given.profile, given.right, given.granted_by) == ("closed", right, owner.caller.principal_id)
    for _ in range(2):
        await authority.grants.remove(owner.caller, given.id)
    with pytest.raises(PermissionDenied):
        await authority.submit(member.caller, session.id)
    assert await names(authority, member) == ["default"]


async def test_only_who_may_edit_edits(authority: Authority) -> None:
    owner = await authority.owner()
    await authority.profiles.apply(owner.caller, "closed", CLOSED)
    member = await authority.colleague(owner)
    changed = ProfileSpec(access="granted", persona="New")
    await grant(authority, owner, member, ProfileRight.USE)
    for name in ("closed", "default", "new"):
        with pytest.raises(PermissionDenied):
            await authority.profiles.apply(member.caller, name, changed)
    await grant(authority, owner, member, ProfileRight.EDIT)
    _, outcome = await authority.profiles.apply(member.caller, "closed", changed)
    assert outcome is Outcome.UPDATED
    with pytest.raises(PermissionDenied):
        await authority.profiles.apply(member.caller, "default", changed)


async def test_opening_a_profile_opens_it_for_all(authority: Authority) -> None:
    owner = await authority.owner()
    await authority.profiles.apply(owner.caller, "closed", CLOSED)
    member = await authority.colleague(owner, Role.VIEWER)
    await authority.profiles.apply(owner.caller, "closed", ProfileSpec())
    assert await names(authority, member) == ["closed", "default"]


async def test_grants_stay_within_a_tenant(authority: Authority) -> None:
    owner = await authority.owner()
    stranger = await authority.owner("other")
    before = await authority.everything()
    for principal, profile in (
        (owner.caller.principal_id, "default"),
        (stranger.caller.principal_id, "nowhere"),
    ):
        with pytest.raises(NotFound):
            await authority.grants.add(stranger.caller, principal, profile, ProfileRight.USE)
    assert await authority.everything() == before
    await authority.grants.add(owner.caller, owner.caller.principal_id, "default", ProfileRight.EDIT)
    (given,) = await authority.grants.list(owner.caller, None, "", None, 10)
    await authority.grants.remove(stranger.caller, given.id)
    assert await authority.grants.list(owner.caller, None, "default", None, 10) == [given]
    assert await authority.grants.list(stranger.caller, None, "", None, 10) == []
