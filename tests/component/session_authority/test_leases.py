"""Leases: one per session, fenced by their epoch, taken back when they lapse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest
from tests.component.session_authority.authority import (
    ANSWERED,
    BEGIN,
    Authority,
    identity_of,
)

from herma.common.errors import LeaseLost
from herma.common.turn_token import TurnIdentity
from herma.session_authority.domain.model import Lease, TurnState
from herma.session_authority.domain.operations import Status
from herma.session_authority.store.leases import MAX_DEATHS


async def die(authority: Authority, lease: Lease) -> None:
    """A runner takes a turn up and is never heard of again."""
    await authority.leases.renew(identity_of(lease))
    await authority.lapse()
    assert await authority.leases.take_back_lapsed() == 1


async def test_twenty_claims_at_once_lease_a_session_once(authority: Authority) -> None:
    caller, session_id = await authority.session()
    for _ in range(3):
        await authority.submit(caller, session_id)
    found = await asyncio.gather(*(authority.leases.claim(uuid4(), uuid4()) for _ in range(20)))
    assert len([lease for lease in found if lease is not None]) == 1
    assert await authority.count("leases") == 1


async def test_sessions_are_leased_side_by_side(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    for _ in range(5):
        await authority.submit(caller, (await authority.sessions.create(caller, "", "", "", "")).id)
    leases = [await authority.claim() for _ in range(5)]
    assert len({lease.session_id for lease in leases}) == 5
    assert await authority.leases.claim(uuid4(), uuid4()) is None


async def test_the_same_request_gets_the_same_lease(authority: Authority) -> None:
    caller, session_id = await authority.session()
    await authority.submit(caller, session_id)
    request_id, runner_id = uuid4(), uuid4()
    first = await authority.leases.claim(request_id, runner_id)
    before = await authority.everything()
    assert first is not None
    assert await authority.leases.claim(request_id, runner_id) == first
    assert await authority.everything() == before


async def test_the_same_request_made_at_once_gets_one_lease(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    for _ in range(20):
        await authority.submit(caller, (await authority.sessions.create(caller, "", "", "", "")).id)
    request_id, runner_id = uuid4(), uuid4()
    found = await asyncio.gather(*(authority.leases.claim(request_id, runner_id) for _ in range(10)))
    assert len({lease.turn.id for lease in found if lease is not None}) == 1
    assert await authority.count("leases") == 1


async def test_a_lease_brings_what_the_turn_starts_from(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    assert (lease.tenant_id, lease.principal_id) == (caller.tenant_id, caller.principal_id)
    assert (lease.turn.attempt, lease.last_step, lease.trust) == (1, 0, "trusted")
    assert lease.profile.name == "default"
    assert [(message.role, message.content) for message in lease.history] == [("user", "Hi")]


@pytest.mark.parametrize("how", ["lapsed", "released", "ended"])
async def test_an_old_epoch_can_do_nothing(authority: Authority, how: str) -> None:
    caller, old = await authority.claimed()
    await authority.submit(caller, old.session_id, "next")
    if how == "lapsed":
        await die(authority, old)
    elif how == "released":
        await authority.leases.release(identity_of(old))
    else:
        await authority.append(old, 1, finish=ANSWERED)
    await authority.claim()
    before = await authority.everything()
    attempts: list[Callable[[TurnIdentity], Awaitable[object]]] = [
        authority.leases.renew,
        authority.leases.release,
        lambda _identity: authority.append(old, 1, Status("late")),
        lambda _identity: authority.append(old, 2, BEGIN),
    ]
    for attempt in attempts:
        with pytest.raises(LeaseLost):
            await attempt(identity_of(old))
    assert await authority.everything() == before


async def test_a_lapsed_turn_is_claimable_again_and_its_attempts_are_counted(
    authority: Authority,
) -> None:
    caller, old = await authority.claimed()
    await authority.append(old, 1, BEGIN)
    await authority.lapse()
    assert await authority.leases.take_back_lapsed() == 1
    assert await authority.leases.take_back_lapsed() == 0
    new = await authority.claim()
    assert new.turn.id == old.turn.id
    assert (new.turn.attempt, new.last_step) == (2, 1)
    assert new.epoch > old.epoch
    assert [message.content for message in new.history] == ["Hi"]
    kinds = [kind for _, kind, _ in await authority.events(old.session_id)]
    assert kinds == ["turn.queued", "turn.started", "message.started", "turn.resumed"]
    assert (await authority.sessions.turn(caller, old.turn.id)).state == TurnState.RUNNING


async def test_a_living_lease_is_not_taken_back(authority: Authority) -> None:
    _, lease = await authority.claimed()
    await authority.leases.renew(identity_of(lease))
    await authority.admin.execute("UPDATE authority.leases SET acquired_at = now() - interval '1 hour'")
    assert await authority.leases.take_back_lapsed() == 0


async def test_a_lease_that_is_taken_back_twice_at_once_is_taken_back_once(authority: Authority) -> None:
    await authority.claimed()
    await authority.lapse()
    assert sum(await asyncio.gather(*(authority.leases.take_back_lapsed() for _ in range(5)))) == 1


async def test_a_lease_that_is_not_acknowledged_is_released_after_two_seconds(
    authority: Authority,
) -> None:
    _, lost = await authority.claimed()
    await authority.admin.execute(
        "UPDATE authority.leases SET acquired_at = now() - interval '1.5 seconds'"
    )
    assert await authority.leases.take_back_lapsed() == 0
    await authority.admin.execute(
        "UPDATE authority.leases SET acquired_at = now() - interval '2 seconds'"
    )
    assert await authority.leases.take_back_lapsed() == 1
    assert (await authority.claim()).turn.id == lost.turn.id
    assert await authority.admin.fetchval("SELECT deaths FROM authority.turns") == 0
    with pytest.raises(LeaseLost):
        await authority.leases.renew(identity_of(lost))


async def test_a_turn_that_kills_its_runners_is_given_up_and_the_next_proceeds(
    authority: Authority,
) -> None:
    caller, lease = await authority.claimed()
    following = await authority.submit(caller, lease.session_id, "next")
    for attempt in range(1, MAX_DEATHS + 1):
        assert lease.turn.attempt == attempt
        await die(authority, lease)
        if attempt < MAX_DEATHS:
            lease = await authority.claim()
    turn = await authority.sessions.turn(caller, lease.turn.id)
    assert (turn.state, turn.exit_reason) == (TurnState.FAILED, "poisoned")
    assert (await authority.claim()).turn.id == following.turn_id


async def test_a_death_after_a_step_is_not_the_turns_fault(authority: Authority) -> None:
    _, lease = await authority.claimed()
    for step in range(1, MAX_DEATHS + 2):
        await authority.append(lease, step, Status("alive"))
        await die(authority, lease)
        lease = await authority.claim()
    assert await authority.admin.fetchval("SELECT deaths FROM authority.turns") == 0


async def test_a_released_turn_is_claimable_at_once_and_before_new_ones(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    other = await authority.sessions.create(caller, "", "", "", "")
    await authority.submit(caller, other.id)
    await authority.leases.release(identity_of(lease))
    assert (await authority.claim()).turn.id == lease.turn.id


async def test_runners_hear_of_their_own_interrupts_only(authority: Authority) -> None:
    caller, session_id = await authority.session()
    await authority.submit(caller, session_id)
    runner_id = uuid4()
    lease = await authority.leases.claim(uuid4(), runner_id)
    assert lease is not None
    assert await authority.leases.interrupts_of(runner_id) == []
    await authority.sessions.interrupt(caller, lease.turn.id)
    told = await authority.leases.interrupts_of(runner_id)
    assert [(entry.turn_id, entry.epoch) for entry in told] == [(lease.turn.id, lease.epoch)]
    assert await authority.leases.interrupts_of(uuid4()) == []
    assert await authority.leases.renew(identity_of(lease)) is True
