"""How turns end: nothing stays open, and nothing of other turns is touched."""

from __future__ import annotations

import pytest
from tests.component.session_authority.authority import (
    ANSWERED,
    BEGIN,
    Authority,
    allowed,
    identity_of,
    result,
    started,
)

from herma.common.errors import LeaseLost
from herma.session_authority.domain.model import CallState, TurnState
from herma.session_authority.domain.operations import DecideCall, Finish, Status

STOPPED = Finish(TurnState.INTERRUPTED, "interrupted_by_user", "")


async def test_an_ending_closes_open_calls_in_the_places_kept_for_them(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    calls = await authority.propose(lease, 1, "proposed", "running", "done", "denied", "allowed")
    proposed, running, done, denied, admitted = calls
    await authority.append(
        lease,
        3,
        *(allowed(call) for call in (running, done, admitted)),
        DecideCall(denied, CallState.DENIED, "no"),
        started(running),
        started(done),
        result(done, "4"),
    )
    await authority.submit(caller, lease.session_id, "next")
    await authority.append(lease, 4, finish=STOPPED)
    await authority.claim()

    turn = await authority.sessions.turn(caller, lease.turn.id)
    assert (turn.state, turn.exit_reason) == (TurnState.INTERRUPTED, "interrupted_by_user")
    assert [(call.tool, call.state) for call in turn.calls] == [
        ("proposed", CallState.CANCELLED),
        ("running", CallState.OUTCOME_UNKNOWN),
        ("done", CallState.COMPLETED),
        ("denied", CallState.CANCELLED),
        ("allowed", CallState.CANCELLED),
    ]
    messages = await authority.sessions.messages(caller, lease.session_id, 0, 100)
    assert [message.position for message in messages] == list(range(1, 9))
    assert [message.call_id for message in messages[2:7]] == [
        proposed,
        running,
        done,
        denied,
        admitted,
    ]
    assert {message.role for message in messages[2:7]} == {"tool"}
    assert (messages[7].role, messages[7].content) == ("user", "next")


async def test_an_ending_discards_the_open_message(authority: Authority) -> None:
    _, lease = await authority.claimed()
    await authority.append(lease, 1, BEGIN)
    await authority.append(lease, 2, finish=STOPPED)
    kinds = [kind for _, kind, _ in await authority.events(lease.session_id)]
    assert kinds[-3:] == ["message.started", "message.discarded", "turn.ended"]
    assert await authority.count("leases") == 0


async def test_a_given_up_turn_leaves_no_unpaired_call(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    (call_id,) = await authority.propose(lease, 1, "execute_code")
    await authority.append(lease, 3, allowed(call_id), started(call_id))
    for _ in range(4):
        await authority.leases.renew(identity_of(lease))
        await authority.lapse()
        await authority.leases.take_back_lapsed()
        found = await authority.leases.claim(lease.turn.id, lease.turn.id)
        if found is None:
            break
        lease = found
    turn = await authority.sessions.turn(caller, lease.turn.id)
    assert turn.exit_reason == "poisoned"
    assert [call.state for call in turn.calls] == [CallState.OUTCOME_UNKNOWN]


async def test_a_queued_turn_is_cancelled_at_once(authority: Authority) -> None:
    caller, session_id = await authority.session()
    first = await authority.submit(caller, session_id, "one")
    second = await authority.submit(caller, session_id, "two")
    turn = await authority.sessions.interrupt(caller, first.turn_id)
    assert (turn.state, turn.exit_reason) == (TurnState.CANCELLED, "interrupted_by_user")
    assert (await authority.claim()).turn.id == second.turn_id


async def test_cancelling_a_queued_turn_leaves_the_running_one_alone(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    queued = await authority.submit(caller, lease.session_id, "next")
    await authority.sessions.interrupt(caller, queued.turn_id)
    assert await authority.leases.renew(identity_of(lease)) is False
    await authority.append(lease, 1, Status("still here"))
    await authority.append(lease, 2, finish=ANSWERED)
    assert (await authority.sessions.turn(caller, lease.turn.id)).state == TurnState.COMPLETED
    assert await authority.leases.claim(lease.turn.id, lease.turn.id) is None


async def test_a_running_turn_is_asked_to_stop_and_goes_on_until_it_does(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    turn = await authority.sessions.interrupt(caller, lease.turn.id)
    assert turn.state == TurnState.RUNNING
    assert (await authority.append(lease, 1, Status("stopping"))).interrupt_requested
    await authority.append(lease, 2, finish=STOPPED)
    assert (await authority.sessions.turn(caller, lease.turn.id)).state == TurnState.INTERRUPTED


async def test_a_turn_between_two_runners_is_ended_as_interrupted(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    (call_id,) = await authority.propose(lease, 1, "execute_code")
    await authority.append(lease, 3, allowed(call_id), started(call_id))
    await authority.leases.release(identity_of(lease))
    turn = await authority.sessions.interrupt(caller, lease.turn.id)
    assert turn.state == TurnState.INTERRUPTED
    assert [call.state for call in turn.calls] == [CallState.OUTCOME_UNKNOWN]
    with pytest.raises(LeaseLost):
        await authority.append(lease, 4, Status("late"))


async def test_an_ended_turn_is_not_touched_by_an_interrupt(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    await authority.append(lease, 1, finish=ANSWERED)
    before = await authority.everything()
    assert (await authority.sessions.interrupt(caller, lease.turn.id)).state == TurnState.COMPLETED
    assert await authority.everything() == before
