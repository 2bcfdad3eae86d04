"""Going on after a turn: in its session if it is the newest there, else from a copy of its past."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from tests.component.session_authority.authority import (
    ANSWERED,
    BEGIN,
    Authority,
    allowed,
    completed,
    result,
    started,
)

from herma.common.errors import (
    IdempotencyConflict,
    InvalidArgument,
    NotFound,
    SessionGoesOn,
    TurnUnfinished,
)
from herma.session_authority.domain.continuation import Continuation
from herma.session_authority.domain.model import Admission, Caller, TurnState
from herma.session_authority.domain.new_session import MAX_HISTORY, ImportedMessage, NewSession
from herma.session_authority.domain.profile import ProfileSpec

NEW = NewSession("", "", "", "Be kind.", (ImportedMessage("user", "before"),))


async def answer(authority: Authority, text: str) -> None:
    """Runs the next turn: text, a call, and the answer."""
    lease = await authority.claim()
    begun = await authority.append(lease, 1, BEGIN)
    calls = await authority.append(lease, 2, completed(begun.message_ids[0], "I look.", "terminal"))
    (call_id,) = calls.call_ids
    await authority.append(lease, 3, allowed(call_id), started(call_id), result(call_id, "found"))
    begun = await authority.append(lease, 4, BEGIN)
    await authority.append(lease, 5, completed(begun.message_ids[0], text), finish=ANSWERED)


async def say(
    authority: Authority, caller: Caller, target: NewSession | Continuation, text: str
) -> Admission:
    """A turn that was answered."""
    admitted = await authority.sessions.submit(caller, target, text, "", "")
    await answer(authority, f"{text}!")
    return admitted


async def said_in(authority: Authority, caller: Caller, session_id: UUID) -> list[str]:
    return [m.content for m in await authority.sessions.messages(caller, session_id, 0, 200)]


async def test_after_the_newest_turn_it_goes_on_in_the_session(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    one = await say(authority, caller, NEW, "one")
    for wanted in ({}, {"profile": "default", "instructions": "Be kind."}):
        two = await say(authority, caller, Continuation(one.turn_id, **wanted), "two")
        assert two.session_id == one.session_id
        one = two
    assert await authority.count("sessions") == 1


async def test_after_an_older_turn_it_goes_on_from_a_copy(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    one = await say(authority, caller, NEW, "one")
    two = await say(authority, caller, Continuation(one.turn_id), "two")
    await authority.admin.execute(
        "UPDATE authority.messages SET context = 'recalled' WHERE content = 'one'"
    )
    kept = await said_in(authority, caller, one.session_id)
    fork = await authority.sessions.submit(caller, Continuation(one.turn_id), "three", "", "")
    assert two.session_id == one.session_id != fork.session_id
    lease = await authority.claim()
    assert (lease.session_id, lease.instructions) == (fork.session_id, "Be kind.")
    assert [(m.role, m.content, m.context, m.turn_id) for m in lease.history] == [
        ("user", "before", None, None),
        ("user", "one", "recalled", None),
        ("assistant", "I look.", None, None),
        ("assistant", "one!", None, None),
        ("user", "three", None, fork.turn_id),
    ]
    assert [m.position for m in lease.history] == [1, 2, 3, 4, 5]
    assert await said_in(authority, caller, one.session_id) == kept


@pytest.mark.parametrize("change", [{"instructions": "Be rude."}, {"profile": "other"}])
async def test_another_profile_or_instructions_need_another_session(
    authority: Authority, change: dict[str, str]
) -> None:
    owner = await authority.owner()
    await authority.profiles.apply(owner.caller, "other", ProfileSpec())
    one = await say(authority, owner.caller, NEW, "one")
    await authority.admin.execute(
        "UPDATE authority.messages SET context = 'recalled' WHERE role = 'user'"
    )
    wanted = Continuation(one.turn_id, **change)
    fork = await authority.sessions.submit(owner.caller, wanted, "two", "", "")
    assert fork.session_id != one.session_id
    lease = await authority.claim()
    assert lease.instructions == change.get("instructions", "Be kind.")
    assert lease.profile.name == change.get("profile", "default")
    assert len(lease.history) == 5
    # What one profile remembers is not told to another.
    recalled = {m.context for m in lease.history[:2]}
    assert recalled == ({None} if "profile" in change else {"recalled"})


async def test_many_at_once_do_not_read_each_other(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    one = await say(authority, caller, NEW, "one")
    made = await asyncio.gather(
        *(
            authority.sessions.submit(caller, Continuation(one.turn_id), f"{number}", f"key-{number}", "")
            for number in range(12)
        )
    )
    assert len({m.session_id for m in made}) == 12
    assert sum(m.session_id == one.session_id for m in made) == 1
    for number, admitted in enumerate(made):
        again = await authority.sessions.submit(
            caller, Continuation(one.turn_id), f"{number}", f"key-{number}", ""
        )
        assert again == admitted
    assert await authority.count("turns") == 13


async def test_the_key_stands_for_where_it_goes_on(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    one = await say(authority, caller, NEW, "one")
    after = Continuation(one.turn_id)
    two = await authority.sessions.submit(caller, after, "two", "key", "", "f")
    before = await authority.everything()
    for target in (
        replace(after, turn_id=two.turn_id),
        replace(after, profile="default"),
        replace(after, instructions="Be rude."),
        one.session_id,
        NEW,
    ):
        with pytest.raises(IdempotencyConflict):
            await authority.sessions.submit(caller, target, "two", "key", "", "f")
    # By now a turn follows, and later its session is gone: the answer stays.
    assert await authority.sessions.submit(caller, after, "two", "key", "", "f") == two
    assert await authority.everything() == before
    await authority.deletions.delete(caller, one.session_id)
    assert await authority.sessions.submit(caller, after, "two", "key", "", "f") == two
    with pytest.raises(NotFound):
        await authority.sessions.submit(caller, after, "two", "other-key", "", "f")


async def test_a_past_that_is_not_complete_cannot_be_copied(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    one = await authority.sessions.submit(caller, NEW, "one", "", "")
    # Behind it in its own session, which needs no copy.
    two = await authority.sessions.submit(caller, Continuation(one.turn_id), "two", "", "")
    assert (two.session_id, two.position) == (one.session_id, 1)
    before = await authority.everything()
    for wanted in (Continuation(one.turn_id), Continuation(two.turn_id, "", "Be rude.")):
        with pytest.raises(TurnUnfinished):
            await authority.sessions.submit(caller, wanted, "three", "key", "")
    assert await authority.everything() == before
    await answer(authority, "one!")
    fork = await authority.sessions.submit(caller, Continuation(one.turn_id), "three", "key", "")
    assert await said_in(authority, caller, fork.session_id) == ["before", "one", "I look.", "one!"]


async def test_a_turn_that_never_ran_has_the_past_before_it(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    one = await say(authority, caller, NEW, "one")
    two = await authority.sessions.submit(caller, one.session_id, "two", "", "")
    assert (await authority.sessions.interrupt(caller, two.turn_id)).state is TurnState.CANCELLED
    await say(authority, caller, Continuation(two.turn_id), "three")
    fork = await authority.sessions.submit(caller, Continuation(two.turn_id), "four", "", "")
    assert await said_in(authority, caller, fork.session_id) == ["before", "one", "I look.", "one!"]


async def test_what_is_not_yours_does_not_exist(authority: Authority) -> None:
    owner = await authority.owner()
    one = await say(authority, owner.caller, NEW, "one")
    colleague = (await authority.colleague(owner)).caller
    stranger = (await authority.owner("stranger")).caller
    before = await authority.everything()
    for caller, turn_id in (
        (colleague, one.turn_id),
        (stranger, one.turn_id),
        (Caller(stranger.tenant_id, owner.caller.principal_id), one.turn_id),
        (owner.caller, uuid4()),
    ):
        for attempt in (
            authority.sessions.submit(caller, Continuation(turn_id), "mine", "key", ""),
            authority.sessions.turn_input(caller, turn_id),
        ):
            with pytest.raises(NotFound) as refused:
                await attempt
            assert (refused.value.reason, refused.value.message) == ("TURN_NOT_FOUND", "no such turn")
    with pytest.raises(NotFound) as unknown:
        await authority.sessions.submit(
            owner.caller, Continuation(one.turn_id, "nobody"), "mine", "key", ""
        )
    assert unknown.value.reason == "PROFILE_NOT_FOUND"
    assert await authority.everything() == before


async def test_a_past_that_is_too_large_is_refused(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    many = replace(NEW, history=(ImportedMessage("user", "x"),) * MAX_HISTORY)
    large = replace(NEW, history=(ImportedMessage("user", "x" * 1024 * 1024),))
    for new in (many, large):
        one = await say(authority, caller, new, "one")
        before = await authority.everything()
        with pytest.raises(InvalidArgument) as refused:
            await authority.sessions.submit(
                caller, Continuation(one.turn_id, "", "Be rude."), "two", "key", ""
            )
        assert list(refused.value.fields) == ["continuation"]
        assert await authority.everything() == before
        # In its own session nothing needs to be copied.
        await say(authority, caller, Continuation(one.turn_id), "two")


async def test_what_a_turn_was_asked_can_be_read_before_it_runs(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    one = await authority.sessions.submit(caller, NEW, "one", "", "", "", '{"a":1}')
    two = await authority.sessions.submit(caller, one.session_id, "two", "", "")
    first = await authority.sessions.turn_input(caller, one.turn_id)
    assert (first.content, [m.content for m in first.earlier]) == ("one", ["before"])
    second = await authority.sessions.turn_input(caller, two.turn_id)
    assert (second.content, list(second.earlier)) == ("two", [])
    assert (await authority.sessions.turn(caller, one.turn_id)).memo == '{"a":1}'
    assert (await authority.sessions.turn(caller, two.turn_id)).memo == ""
    assert (await authority.claim()).turn.memo == ""


async def test_a_session_is_deleted_only_while_its_turn_is_the_only_one(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    one = await say(authority, caller, NEW, "one")
    two = await authority.sessions.submit(caller, Continuation(one.turn_id), "two", "", "")
    before = await authority.everything()
    for only in (one.turn_id, two.turn_id):
        with pytest.raises(SessionGoesOn):
            await authority.deletions.delete(caller, one.session_id, only)
        # Also what came between its two steps is seen.
        with pytest.raises(SessionGoesOn):
            await authority.deletion_store.delete(caller, one.session_id, only)
    assert await authority.everything() == before
    fork = await authority.sessions.submit(caller, Continuation(one.turn_id), "three", "", "")
    await authority.deletions.delete(caller, fork.session_id, fork.turn_id)
    await authority.deletions.delete(caller, fork.session_id, fork.turn_id)
    with pytest.raises(NotFound):
        await authority.sessions.turn(caller, fork.turn_id)
