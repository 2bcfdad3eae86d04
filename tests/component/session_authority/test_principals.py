"""Principals: roles bound what they may, a change reaches every key, an owner always remains."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from tests.component.session_authority.authority import Authority, Owner, identity_of

from herma.common.errors import (
    AlreadyExists,
    LastOwner,
    NotFound,
    PermissionDenied,
    PrincipalChanged,
    Unauthenticated,
)
from herma.session_authority.domain.model import TurnState
from herma.session_authority.domain.principal import PrincipalChange
from herma.session_authority.domain.profile import ProfileSpec
from herma.session_authority.domain.rights import SCOPES_OF, ProfileRight, Role


async def set_role(authority: Authority, actor: Owner, target: Owner, role: Role) -> None:
    await authority.principals.change(
        actor.caller, target.caller.principal_id, PrincipalChange(role=role)
    )


async def disable(authority: Authority, actor: Owner, target: Owner) -> None:
    await authority.principals.change(
        actor.caller, target.caller.principal_id, PrincipalChange(disabled=True)
    )


async def scopes_of(authority: Authority, who: Owner) -> set[str]:
    return set((await authority.keys.authenticate(who.key)).scopes)


@pytest.mark.parametrize("role", list(Role))
async def test_a_key_may_what_its_role_may(authority: Authority, role: Role) -> None:
    owner = await authority.owner()
    colleague = await authority.colleague(owner, role)
    assert await scopes_of(authority, colleague) == SCOPES_OF[role]


async def test_a_change_of_role_reaches_keys_that_there_are(authority: Authority) -> None:
    owner = await authority.owner()
    colleague = await authority.colleague(owner, Role.ADMIN)
    await set_role(authority, owner, colleague, Role.VIEWER)
    assert await scopes_of(authority, colleague) == SCOPES_OF[Role.VIEWER]
    await set_role(authority, owner, colleague, Role.OWNER)
    # The key was made for an admin and stays what it was made.
    assert await scopes_of(authority, colleague) == SCOPES_OF[Role.ADMIN]


async def test_a_key_is_never_above_its_maker(authority: Authority) -> None:
    owner = await authority.owner()
    admin = await authority.colleague(owner, Role.ADMIN)
    made = await authority.colleague(admin, Role.ADMIN, "robot")
    await set_role(authority, owner, admin, Role.MEMBER)
    assert await scopes_of(authority, made) == SCOPES_OF[Role.MEMBER]
    await disable(authority, owner, admin)
    with pytest.raises(Unauthenticated):
        await authority.keys.authenticate(made.key)


async def test_a_disabled_principal_is_nobody_until_enabled(authority: Authority) -> None:
    owner = await authority.owner()
    colleague = await authority.colleague(owner)
    session = await authority.sessions.create(colleague.caller, "", "", "", "")
    await disable(authority, owner, colleague)
    with pytest.raises(Unauthenticated):
        await authority.keys.authenticate(colleague.key)
    # Not even through an entrance that has not heard of it.
    with pytest.raises(PermissionDenied):
        await authority.submit(colleague.caller, session.id)
    with pytest.raises(PermissionDenied):
        await authority.keys.create(colleague.caller, "", [], None)
    await authority.principals.change(
        owner.caller, colleague.caller.principal_id, PrincipalChange(disabled=False)
    )
    await authority.submit(colleague.caller, session.id)
    assert await scopes_of(authority, colleague)


async def test_what_a_disabled_principal_asked_for_does_not_start(authority: Authority) -> None:
    owner = await authority.owner()
    colleague = await authority.colleague(owner)
    session = await authority.sessions.create(colleague.caller, "", "", "", "")
    running = await authority.submit(colleague.caller, session.id)
    waiting = [await authority.submit(colleague.caller, session.id) for _ in range(2)]
    lease = await authority.claim()
    assert lease.turn.id == running.turn_id
    await disable(authority, owner, colleague)
    # What runs is asked to stop; what waits never starts, not even for its runner's successor.
    assert await authority.leases.renew(identity_of(lease))
    await authority.leases.release(identity_of(lease))
    assert await authority.leases.claim(uuid4(), uuid4()) is None
    rows = await authority.admin.fetch(
        "SELECT id, state, exit_reason FROM authority.turns WHERE session_id = $1 ORDER BY seq",
        session.id,
    )
    assert [tuple(row) for row in rows] == [
        (running.turn_id, "interrupted", "rights_lost"),
        *((turn.turn_id, "cancelled", "rights_lost") for turn in waiting),
    ]
    assert await authority.leases.claim(uuid4(), uuid4()) is None
    # Others go on.
    mine = await authority.sessions.create(owner.caller, "", "", "", "")
    await authority.submit(owner.caller, mine.id)
    assert (await authority.claim()).session_id == mine.id


async def test_a_grant_that_was_taken_back_stops_what_waits(authority: Authority) -> None:
    owner = await authority.owner()
    colleague = await authority.colleague(owner)
    await authority.profiles.apply(owner.caller, "closed", ProfileSpec(access="granted"))
    grant = await authority.grants.add(
        owner.caller, colleague.caller.principal_id, "closed", ProfileRight.USE
    )
    session = await authority.sessions.create(colleague.caller, "closed", "", "", "")
    turn = await authority.submit(colleague.caller, session.id)
    await authority.grants.remove(owner.caller, grant.id)
    assert await authority.leases.claim(uuid4(), uuid4()) is None
    ended = await authority.sessions.turn(colleague.caller, turn.turn_id)
    assert (ended.state, ended.exit_reason) == (TurnState.CANCELLED, "rights_lost")


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.MEMBER, Role.VIEWER])
async def test_only_owners_and_admins_manage(authority: Authority, role: Role) -> None:
    owner = await authority.owner()
    colleague = await authority.colleague(owner, role)
    other = await authority.colleague(owner, Role.VIEWER, "other")
    before = await authority.everything()
    attempts = [
        authority.principals.list(colleague.caller, None, 10),
        authority.principals.get(colleague.caller, other.caller.principal_id),
        authority.principals.create_service(colleague.caller, "robot", "", Role.VIEWER),
        set_role(authority, colleague, colleague, Role.OWNER),
        disable(authority, colleague, other),
        authority.grants.list(colleague.caller, None, "", None, 10),
        authority.issuers.list(colleague.caller, None, 10),
    ]
    for attempt in attempts:
        with pytest.raises(PermissionDenied):
            await attempt
    with pytest.raises(NotFound):
        await authority.keys.list(colleague.caller, other.caller.principal_id, manages=True)
    with pytest.raises(NotFound):
        await authority.keys.revoke(colleague.caller, other.key_id, manages=True)
    assert await authority.everything() == before


async def test_an_admin_does_not_reach_owners(authority: Authority) -> None:
    owner = await authority.owner()
    admin = await authority.colleague(owner, Role.ADMIN)
    before = await authority.everything()
    for attempt in (
        authority.principals.create_service(admin.caller, "robot", "", Role.OWNER),
        set_role(authority, admin, admin, Role.OWNER),
        set_role(authority, admin, owner, Role.VIEWER),
        disable(authority, admin, owner),
        authority.keys.revoke(admin.caller, owner.key_id, manages=True),
        authority.keys.list(admin.caller, owner.caller.principal_id, manages=True),
    ):
        with pytest.raises(PermissionDenied):
            await attempt
    assert await authority.everything() == before


async def test_the_last_owner_stays(authority: Authority) -> None:
    owner = await authority.owner()
    for change in (PrincipalChange(role=Role.ADMIN), PrincipalChange(disabled=True)):
        with pytest.raises(LastOwner):
            await authority.principals.change(owner.caller, owner.caller.principal_id, change)


async def test_two_owners_cannot_remove_each_other(authority: Authority) -> None:
    owner = await authority.owner()
    for number in range(5):
        other = await authority.colleague(owner, Role.OWNER, f"other-{number}")
        both = await asyncio.gather(
            set_role(authority, owner, other, Role.VIEWER),
            set_role(authority, other, owner, Role.VIEWER),
            return_exceptions=True,
        )
        left = await authority.admin.fetchval(
            "SELECT count(*) FROM authority.principals WHERE tenant_id = $1 AND role = 'owner'",
            owner.caller.tenant_id,
        )
        assert left == 1, both
        if isinstance(both[1], Exception):
            continue
        owner = other


async def test_a_change_from_an_old_version_is_refused(authority: Authority) -> None:
    owner = await authority.owner()
    colleague = await authority.colleague(owner)
    who = colleague.caller.principal_id
    seen = await authority.principals.get(owner.caller, who)
    change = PrincipalChange(role=Role.VIEWER, expected_version=seen.version)
    changed = await authority.principals.change(owner.caller, who, change)
    assert (changed.role, changed.version) == (Role.VIEWER, seen.version + 1)
    # A repeat of what took effect is answered like the first.
    assert await authority.principals.change(owner.caller, who, change) == changed
    with pytest.raises(PrincipalChanged):
        await authority.principals.change(
            owner.caller, who, PrincipalChange(name="Kim", expected_version=seen.version)
        )


async def test_what_is_another_tenants_does_not_exist(authority: Authority) -> None:
    owner = await authority.owner()
    stranger = await authority.owner("other")
    before = await authority.everything()
    for attempt in (
        authority.principals.get(stranger.caller, owner.caller.principal_id),
        set_role(authority, stranger, owner, Role.VIEWER),
        authority.keys.list(stranger.caller, owner.caller.principal_id, manages=True),
        authority.keys.revoke(stranger.caller, owner.key_id, manages=True),
        authority.keys.create(
            stranger.caller,
            "",
            [],
            None,
            principal_id=owner.caller.principal_id,
            manages=True,
        ),
        authority.principals.get(stranger.caller, uuid4()),
    ):
        with pytest.raises(NotFound) as caught:
            await attempt
        assert caught.value.reason in ("PRINCIPAL_NOT_FOUND", "KEY_NOT_FOUND")
    assert await authority.everything() == before


async def test_a_service_account_is_made_once(authority: Authority) -> None:
    owner = await authority.owner()
    made = await authority.principals.create_service(owner.caller, "robot", "Robbie", Role.MEMBER)
    with pytest.raises(AlreadyExists):
        await authority.principals.create_service(owner.caller, "robot", "", Role.VIEWER)
    listed = await authority.principals.list(owner.caller, None, 10)
    assert made in listed
    assert await authority.principals.list(owner.caller, listed[0].id, 10) == listed[1:]
