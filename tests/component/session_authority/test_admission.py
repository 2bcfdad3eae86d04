"""Submissions: exactly once per key, in order, all or nothing."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from tests.component.session_authority.authority import ANSWERED, BEGIN, Authority, completed

from herma.common.errors import IdempotencyConflict, NotFound
from herma.session_authority.domain.model import Caller


async def test_twenty_equal_submissions_at_once_admit_one_turn(authority: Authority) -> None:
    caller, session_id = await authority.session()
    answers = await asyncio.gather(
        *(authority.submit(caller, session_id, "Hi", "key-1") for _ in range(20))
    )
    assert len(set(answers)) == 1
    assert await authority.count("turns") == 1
    assert await authority.events(session_id) == [(1, "turn.queued", answers[0].turn_id)]


async def test_the_first_answer_is_given_long_after_the_turn_has_ended(authority: Authority) -> None:
    caller, session_id = await authority.session()
    first = await authority.submit(caller, session_id, "Hi", "key-1")
    await authority.append(await authority.claim(), 1, finish=ANSWERED)
    before = await authority.everything()
    assert await authority.submit(caller, session_id, "Hi", "key-1") == first
    assert await authority.everything() == before


async def test_a_key_that_was_used_for_other_content_conflicts(authority: Authority) -> None:
    caller, session_id = await authority.session()
    other = await authority.sessions.create(caller, "", "", "", "")
    await authority.submit(caller, session_id, "Hi", "key-1")
    before = await authority.everything()
    with pytest.raises(IdempotencyConflict):
        await authority.submit(caller, session_id, "Ho", "key-1")
    with pytest.raises(IdempotencyConflict):
        await authority.submit(caller, other.id, "Hi", "key-1")
    assert await authority.everything() == before


async def test_different_requests_at_once_under_one_key_admit_one(authority: Authority) -> None:
    caller, session_id = await authority.session()
    answers = await asyncio.gather(
        *(authority.submit(caller, session_id, f"{number}", "key-1") for number in range(20)),
        return_exceptions=True,
    )
    refused = [answer for answer in answers if isinstance(answer, IdempotencyConflict)]
    assert len(refused) == 19
    assert await authority.count("turns") == 1


async def test_keys_belong_to_their_principal(authority: Authority) -> None:
    one, one_session = await authority.session("one")
    two, two_session = await authority.session("two")
    first = await authority.submit(one, one_session, "Hi", "key-1")
    second = await authority.submit(two, two_session, "Ho", "key-1")
    assert first.turn_id != second.turn_id


async def test_a_refused_submission_keeps_no_key(authority: Authority) -> None:
    caller, session_id = await authority.session()
    with pytest.raises(NotFound):
        await authority.submit(caller, uuid4(), "Hi", "key-1")
    assert await authority.count("idempotency") == 0
    assert await authority.submit(caller, session_id, "Ho", "key-1")


async def test_turns_of_a_session_run_one_after_the_other_in_order(authority: Authority) -> None:
    caller, session_id = await authority.session()
    admitted = [await authority.submit(caller, session_id, f"turn {number}") for number in range(4)]
    assert [admission.position for admission in admitted] == [0, 1, 2, 3]
    for admission in admitted:
        lease = await authority.claim()
        assert lease.turn.id == admission.turn_id
        assert await authority.leases.claim(uuid4(), uuid4()) is None
        begun = await authority.append(lease, 1, BEGIN)
        await authority.append(lease, 2, completed(begun.message_ids[0], "done"), finish=ANSWERED)
    messages = await authority.sessions.messages(caller, session_id, 0, 100)
    assert [message.role for message in messages] == ["user", "assistant"] * 4
    assert [message.content for message in messages[::2]] == [f"turn {number}" for number in range(4)]


async def test_one_session_per_session_key_however_many_ask(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    made = await asyncio.gather(
        *(authority.sessions.create(caller, "", "chat-1", "", "") for _ in range(20))
    )
    assert len({session.id for session in made}) == 1


async def test_a_session_is_made_once_per_idempotency_key(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    made = await asyncio.gather(
        *(authority.sessions.create(caller, "", "", "Title", "key-1") for _ in range(20))
    )
    assert len({session.id for session in made}) == 1
    with pytest.raises(IdempotencyConflict):
        await authority.sessions.create(caller, "", "", "Other", "key-1")


async def test_an_unknown_profile_is_not_found(authority: Authority) -> None:
    caller: Caller = (await authority.owner()).caller
    with pytest.raises(NotFound):
        await authority.sessions.create(caller, "nobody", "", "", "key-1")
    assert await authority.count("idempotency") == 0
