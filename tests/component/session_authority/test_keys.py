"""API keys: never more than their maker's rights, and dead when they should be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.component.session_authority.authority import Authority, Owner

from herma.common.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unauthenticated,
)
from herma.session_authority.domain.keys import ApiKey, mint_key

UNKNOWN = f"herma_abcdefgh_{'x' * 43}"
LATER = datetime.now(UTC) + timedelta(days=1)


async def make(
    authority: Authority, owner: Owner, *scopes: str, until: datetime | None = None
) -> tuple[ApiKey, str]:
    return await authority.keys.create(owner.caller, "test", scopes, until)


async def test_a_key_acts_for_its_maker(authority: Authority) -> None:
    owner = await authority.owner()
    key, secret = await make(authority, owner, "agent", until=LATER)
    who = await authority.keys.authenticate(secret)
    assert (who.caller, who.caller.key_id, who.expires_at) == (owner.caller, key.id, LATER)
    assert list(who.scopes) == ["agent"]
    assert {entry.id for entry in await authority.keys.list(owner.caller)} == {
        owner.key_id,
        key.id,
    }


async def test_only_a_hash_is_stored(authority: Authority) -> None:
    owner = await authority.owner()
    assert owner.key.split("_", 2)[2] not in repr(await authority.everything())


async def test_a_key_never_holds_more_than_its_maker(authority: Authority) -> None:
    owner = await authority.owner()
    with pytest.raises(PermissionDenied):
        await make(authority, owner, "platform")
    key, _ = await make(authority, owner, "agent")
    with pytest.raises(PermissionDenied):
        await authority.keys.create(replace(owner.caller, key_id=key.id), "more", ["keys"], None)
    inherited, _ = await authority.keys.create(replace(owner.caller, key_id=key.id), "same", [], None)
    assert list(inherited.scopes) == ["agent"]
    with pytest.raises(InvalidArgument):
        await make(authority, owner, "everything")


async def test_the_operators_right_is_not_inherited_unasked(authority: Authority) -> None:
    operator = mint_key()
    await authority.tenants.bootstrap(operator)
    who = await authority.keys.authenticate(operator)
    key, _ = await authority.keys.create(who.caller, "daily", [], None)
    assert "platform" in who.scopes
    assert "platform" not in key.scopes


async def test_a_key_does_not_outlive_its_maker(authority: Authority) -> None:
    owner = await authority.owner()
    maker, _ = await make(authority, owner, "agent", "keys", until=LATER)
    for asked in (None, LATER + timedelta(days=1)):
        key, _ = await authority.keys.create(replace(owner.caller, key_id=maker.id), "child", [], asked)
        assert key.expires_at == LATER


async def test_a_revoked_key_is_refused(authority: Authority) -> None:
    owner = await authority.owner()
    key, secret = await make(authority, owner, "agent", "keys")
    revoked = await authority.keys.revoke(owner.caller, key.id)
    assert revoked.revoked_at is not None
    with pytest.raises(Unauthenticated):
        await authority.keys.authenticate(secret)
    with pytest.raises(NotFound):
        await authority.keys.create(replace(owner.caller, key_id=key.id), "child", [], None)
    assert await authority.keys.revoke(owner.caller, key.id) == revoked


async def test_an_expired_key_is_refused(authority: Authority) -> None:
    owner = await authority.owner()
    key, secret = await make(authority, owner, until=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(Unauthenticated):
        await authority.keys.authenticate(secret)
    with pytest.raises(NotFound):
        await authority.keys.create(replace(owner.caller, key_id=key.id), "child", [], None)


@pytest.mark.parametrize("text", ["", "herma_", "herma_abcdefgh_short", UNKNOWN, "a\0b"])
async def test_what_is_no_key_is_refused(authority: Authority, text: str) -> None:
    with pytest.raises(Unauthenticated):
        await authority.keys.authenticate(text)


async def test_a_key_cannot_be_made_with_another_principals_key(authority: Authority) -> None:
    owner = await authority.owner()
    colleague = (await authority.colleague(owner)).caller
    with pytest.raises(NotFound):
        await authority.keys.create(replace(colleague, key_id=owner.key_id), "stolen", [], None)
    with pytest.raises(NotFound):
        await authority.keys.revoke(colleague, owner.key_id)


async def test_starting_again_keeps_the_operators_key(authority: Authority) -> None:
    operator = mint_key()
    first = await authority.tenants.bootstrap(operator)
    before = await authority.everything()
    assert await authority.tenants.bootstrap(operator) == first
    assert await authority.everything() == before


async def test_a_tenants_name_is_taken_once(authority: Authority) -> None:
    await authority.owner("acme")
    before = await authority.everything()
    with pytest.raises(AlreadyExists):
        await authority.owner("acme")
    assert await authority.everything() == before
