"""Steps: all or nothing, each once, in order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.component.session_authority.authority import (
    ANSWERED,
    BEGIN,
    Authority,
    allowed,
    completed,
    identity_of,
    result,
    started,
    step_of,
)

from herma.common.errors import InvalidArgument, LeaseLost, StepConflict
from herma.session_authority.domain.operations import DiscardMessage, Operation, StartCall, Status


async def test_a_repeated_step_gets_the_same_answer_and_writes_nothing(authority: Authority) -> None:
    _, lease = await authority.claimed()
    first = await authority.append(lease, 1, BEGIN)
    before = await authority.everything()
    assert await authority.append(lease, 1, BEGIN) == first
    assert await authority.everything() == before


async def test_a_step_that_is_sent_many_times_at_once_is_written_once(authority: Authority) -> None:
    _, lease = await authority.claimed()
    answers = await asyncio.gather(*(authority.append(lease, 1, BEGIN) for _ in range(20)))
    assert len(set(answers)) == 1
    assert await authority.count("steps") == 1
    assert await authority.count("model_calls") == 1


async def test_the_last_step_of_a_finished_turn_is_answered_again(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    begun = await authority.append(lease, 1, BEGIN)
    last = step_of(2, completed(begun.message_ids[0], "done"), finish=ANSWERED)
    first = await authority.ledger.append(identity_of(lease), last)
    await authority.submit(caller, lease.session_id, "next")
    await authority.claim()
    before = await authority.everything()
    assert await authority.ledger.append(identity_of(lease), last) == first
    with pytest.raises(LeaseLost):
        await authority.ledger.append(identity_of(lease), replace(last, digest=b"x" * 32))
    assert await authority.everything() == before


@pytest.mark.parametrize("number", [1, 2, 4, 7])
async def test_any_step_but_the_next_conflicts(authority: Authority, number: int) -> None:
    _, lease = await authority.claimed()
    await authority.append(lease, 1, Status("one"))
    await authority.append(lease, 2, Status("two"))
    before = await authority.everything()
    with pytest.raises(StepConflict):
        await authority.append(lease, number, Status("other"))
    assert await authority.everything() == before


async def test_an_old_step_is_not_answered_again(authority: Authority) -> None:
    _, lease = await authority.claimed()
    await authority.append(lease, 1, Status("one"))
    await authority.append(lease, 2, Status("two"))
    with pytest.raises(StepConflict):
        await authority.append(lease, 1, Status("one"))


async def test_an_invalid_operation_in_the_middle_writes_nothing(authority: Authority) -> None:
    _, lease = await authority.claimed()
    (call_id,) = await authority.propose(lease, 1, "execute_code")
    invalid: list[Operation] = [
        StartCall(call_id, "sandbox-1"),  # not decided yet
        result(uuid4(), "of no call"),
        DiscardMessage(uuid4(), "not open"),
        completed(uuid4(), "not open"),
        replace(BEGIN, parameters="{not json"),
    ]
    before = await authority.everything()
    for operation in invalid:
        with pytest.raises(InvalidArgument):
            await authority.append(
                lease, 3, Status("before"), operation, Status("after"), finish=ANSWERED
            )
        assert await authority.everything() == before
    await authority.append(lease, 3, allowed(call_id))


async def test_text_that_cannot_be_stored_is_refused_for_good(authority: Authority) -> None:
    _, lease = await authority.claimed()
    begun = await authority.append(lease, 1, BEGIN)
    before = await authority.everything()
    with pytest.raises(InvalidArgument):
        await authority.append(lease, 2, completed(begun.message_ids[0], "a\0b"))
    assert await authority.everything() == before


async def test_a_call_of_another_turn_cannot_be_touched(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    (call_id,) = await authority.propose(lease, 1, "execute_code")
    other = await authority.sessions.create(caller, "", "", "", "")
    await authority.submit(caller, other.id)
    stranger = await authority.claim()
    with pytest.raises(InvalidArgument):
        await authority.append(stranger, 1, allowed(call_id))


async def test_a_result_is_recorded_once(authority: Authority) -> None:
    _, lease = await authority.claimed()
    (call_id,) = await authority.propose(lease, 1, "execute_code")
    await authority.append(lease, 3, allowed(call_id), started(call_id), result(call_id, "4"))
    with pytest.raises(InvalidArgument) as refusal:
        await authority.append(lease, 4, result(call_id, "5"))
    assert refusal.value.reason == "CALL_STATE_CONFLICT"


async def test_results_stand_in_the_order_of_the_calls(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    one, two = await authority.propose(lease, 1, "read_file", "read_file")
    await authority.append(lease, 3, allowed(one), allowed(two), started(one), started(two))
    await authority.append(lease, 4, result(two, "second"))
    await authority.append(lease, 5, result(one, "first"))
    messages = await authority.sessions.messages(caller, lease.session_id, 0, 100)
    assert [(message.role, message.content) for message in messages] == [
        ("user", "Hi"),
        ("assistant", ""),
        ("tool", "first"),
        ("tool", "second"),
    ]
    assert [message.call_id for message in messages[2:]] == [one, two]


async def test_a_message_that_begins_anew_discards_the_open_one(authority: Authority) -> None:
    _, lease = await authority.claimed()
    first = await authority.append(lease, 1, BEGIN)
    await authority.append(lease, 2, BEGIN)
    with pytest.raises(InvalidArgument):
        await authority.append(lease, 3, completed(first.message_ids[0], "late"))
    kinds = [kind for _, kind, _ in await authority.events(lease.session_id)]
    assert kinds[2:] == ["message.started", "message.discarded", "message.started"]
