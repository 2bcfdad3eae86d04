"""Deletion: nothing of a session is left, and nothing is written behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

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
)
from tests.support.waiting import eventually

from herma.common.errors import IdempotencyConflict, LeaseLost, NotFound
from herma.session_authority.deletion import Deletions
from herma.session_authority.domain.model import Caller, Delta, Event, TurnState
from herma.session_authority.domain.operations import Finish, Status

STOPPED = Finish(TurnState.INTERRUPTED, "interrupted_by_user", "")


def without(everything: dict[str, list[Any]], *tables: str) -> dict[str, list[Any]]:
    return {name: rows for name, rows in everything.items() if name not in tables}


async def lived(authority: Authority, caller: Caller, session_id: UUID) -> None:
    """A turn with calls that ended, and one that is queued."""
    await authority.submit(caller, session_id, "one", "key-1")
    lease = await authority.claim()
    assert lease.session_id == session_id
    (call_id,) = await authority.propose(lease, 1, "terminal")
    await authority.append(lease, 3, allowed(call_id), started(call_id), result(call_id, "4"))
    begun = await authority.append(lease, 4, BEGIN)
    await authority.append(lease, 5, completed(begun.message_ids[0], "done"), finish=ANSWERED)


async def stream(
    authority: Authority, message_id: UUID, lease: Any, offset: int = 0, text: str = "text"
) -> None:
    authority.deltas.put(
        lease.tenant_id, lease.session_id, Delta(lease.turn.id, message_id, 1, offset, text)
    )
    await eventually(lambda: authority.count("deltas"), "the delta is stored")


async def test_nothing_is_left_but_answers_by_key(authority: Authority) -> None:
    caller, kept = await authority.session()
    await lived(authority, caller, kept)
    before = await authority.everything()
    session_id = (await authority.sessions.create(caller, "", "", "Mine", "")).id
    await authority.submit(caller, session_id, "secret content", "key-2")
    lease = await authority.claim()
    begun = await authority.append(lease, 1, BEGIN)
    await authority.append(lease, 2, completed(begun.message_ids[0], "secret answer", "terminal"))
    again = await authority.append(lease, 3, BEGIN)
    await stream(authority, again.message_ids[0], lease)
    await authority.submit(caller, session_id, "waits", "")
    await authority.deletion_store.delete(caller, session_id)
    after = await authority.everything()
    others = ("idempotency", "audit", "audit_heads")
    assert without(after, *others) == without(before, *others)
    assert after["audit"][-1]["details"] == "{}"
    assert "secret" not in json.dumps(after)
    mentions = {name for name, rows in after.items() if str(session_id) in json.dumps(rows)}
    assert mentions == {"audit", "idempotency"}


async def test_a_key_of_a_deleted_session_still_gets_its_first_answer(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    made = await authority.sessions.create(caller, "", "", "Title", "make-1")
    first = await authority.submit(caller, made.id, "Hi", "key-1")
    await authority.deletions.delete(caller, made.id)
    assert await authority.submit(caller, made.id, "Hi", "key-1") == first
    assert await authority.sessions.create(caller, "", "", "Title", "make-1") == made
    with pytest.raises(IdempotencyConflict):
        await authority.submit(caller, made.id, "Ho", "key-1")
    with pytest.raises(NotFound):
        await authority.submit(caller, made.id, "Hi", "key-2")
    assert await authority.count("turns") == 0
    assert await authority.count("sessions") == 0


async def test_a_deleted_session_is_not_found_and_its_name_is_free(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    made = await authority.sessions.create(caller, "", "chat-1", "", "")
    admitted = await authority.submit(caller, made.id)
    await authority.deletions.delete(caller, made.id)
    for attempt in (
        authority.sessions.get(caller, made.id),
        authority.sessions.messages(caller, made.id, 0, 10),
        authority.sessions.turn(caller, admitted.turn_id),
        authority.sessions.interrupt(caller, admitted.turn_id),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert await authority.sessions.list(caller, None, 10) == []
    assert await authority.leases.claim(uuid4(), uuid4()) is None
    assert (await authority.sessions.create(caller, "", "chat-1", "", "")).id != made.id


async def test_deleting_twice_is_harmless_and_strangers_learn_nothing(authority: Authority) -> None:
    caller, session_id = await authority.session()
    stranger = (await authority.owner("other")).caller
    await authority.deletions.delete(caller, session_id)
    before = await authority.everything()
    await authority.deletions.delete(caller, session_id)
    for other in (stranger, Caller(caller.tenant_id, stranger.principal_id)):
        with pytest.raises(NotFound):
            await authority.deletions.delete(other, session_id)
    with pytest.raises(NotFound):
        await authority.deletions.delete(caller, uuid4())
    assert await authority.everything() == before


async def test_the_database_deletes_no_session_of_another_tenant(authority: Authority) -> None:
    caller, session_id = await authority.session()
    other = (await authority.owner("other")).caller
    await authority.submit(caller, session_id)
    before = await authority.everything()
    for tenant in (other.tenant_id, None):
        async with authority.database.transaction(tenant) as connection:
            await connection.execute(
                "SELECT authority.delete_session($1, $2)", caller.tenant_id, session_id
            )
    assert await authority.everything() == before


async def test_ten_deletions_at_once_all_succeed(authority: Authority) -> None:
    caller, session_id = await authority.session()
    await lived(authority, caller, session_id)
    await asyncio.gather(*(authority.deletions.delete(caller, session_id) for _ in range(10)))
    assert await authority.count("sessions") == 0


async def test_a_running_turn_is_asked_to_stop_and_ends_before_its_session(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    session_id = lease.session_id
    queued = [await authority.submit(caller, session_id, f"{number}") for number in range(3)]
    seen: list[Event | Delta] = []

    async def watch() -> None:
        async for item in authority.subscriptions.follow(caller, session_id, 0, None):
            seen.append(item)

    watching = asyncio.create_task(watch())
    deleting = asyncio.create_task(authority.deletions.delete(caller, session_id))

    async def asked() -> bool:
        return await authority.leases.renew(identity_of(lease))

    await eventually(asked, "the runner is asked to stop")
    assert not deleting.done()
    await authority.append(lease, 1, finish=STOPPED)
    authority.belfry.ring_session(session_id)
    await deleting
    with pytest.raises(NotFound):
        await watching
    ended = [item for item in seen if isinstance(item, Event) and item.kind == "turn.ended"]
    assert {item.turn_id for item in ended} == {lease.turn.id, *(entry.turn_id for entry in queued)}
    assert await authority.leases.claim(uuid4(), uuid4()) is None


async def test_a_runner_that_does_not_stop_has_lost_its_lease(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    begun = await authority.append(lease, 1, BEGIN)
    hasty = Deletions(authority.deletion_store, authority.belfry, patience=0.0)
    await hasty.delete(caller, lease.session_id)
    before = await authority.everything()
    for attempt in (
        authority.leases.renew(identity_of(lease)),
        authority.leases.release(identity_of(lease)),
        authority.append(lease, 2, Status("late")),
        authority.append(lease, 1, BEGIN),
        authority.append(lease, 2, finish=ANSWERED),
    ):
        with pytest.raises(LeaseLost):
            await attempt
    authority.deltas.put(
        lease.tenant_id, lease.session_id, Delta(lease.turn.id, begun.message_ids[0], 1, 0, "late")
    )
    # Deltas are written in their order: once another session's is stored, this one was tried.
    other = (await authority.sessions.create(caller, "", "", "", "")).id
    await authority.submit(caller, other)
    next_lease = await authority.claim()
    message_id = (await authority.append(next_lease, 1, BEGIN)).message_ids[0]
    await stream(authority, message_id, next_lease)
    assert await authority.count("deltas") == 1
    assert before["leases"] == []
    assert await authority.leases.take_back_lapsed() == 0


async def test_a_turn_between_two_runners_goes_too(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    (call_id,) = await authority.propose(lease, 1, "terminal")
    await authority.append(lease, 3, allowed(call_id), started(call_id))
    await authority.leases.release(identity_of(lease))
    await authority.deletions.delete(caller, lease.session_id)
    assert await authority.count("turns") == 0
    assert await authority.leases.claim(uuid4(), uuid4()) is None


async def test_submissions_at_the_same_time_are_admitted_or_refused(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    for _ in range(5):
        session_id = (await authority.sessions.create(caller, "", "", "", "")).id
        answers = await asyncio.gather(
            *(authority.submit(caller, session_id, f"{n}", f"{session_id}-{n}") for n in range(8)),
            authority.deletions.delete(caller, session_id),
            *(authority.submit(caller, session_id, f"{n}", f"{session_id}-{n}") for n in range(8)),
            return_exceptions=True,
        )
        wrong = [a for a in answers if isinstance(a, Exception) and not isinstance(a, NotFound)]
        assert wrong == []
        for table in ("turns", "events", "sessions"):
            assert await authority.count(table) == 0
    # A refused submission keeps no key: those kept are of admitted ones.
    kept = await authority.admin.fetchval(
        "SELECT count(*) FROM authority.idempotency WHERE operation = 'Submit' AND response IS NULL"
    )
    assert kept == 0


async def test_claims_at_the_same_time_leave_no_lease(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    hasty = Deletions(authority.deletion_store, authority.belfry, patience=0.0)
    for _ in range(8):
        session_id = (await authority.sessions.create(caller, "", "", "", "")).id
        for number in range(3):
            await authority.submit(caller, session_id, f"{number}")
        answers = await asyncio.gather(
            *(authority.leases.claim(uuid4(), uuid4()) for _ in range(4)),
            hasty.delete(caller, session_id),
            *(authority.leases.claim(uuid4(), uuid4()) for _ in range(4)),
        )
        for lease in answers:
            if lease is not None:
                with pytest.raises(LeaseLost):
                    await authority.append(lease, 1, BEGIN)
        for table in ("leases", "turns", "messages", "events", "sessions"):
            assert await authority.count(table) == 0


async def test_a_claim_repeated_after_the_deletion_gets_other_work(authority: Authority) -> None:
    caller, session_id = await authority.session()
    await authority.submit(caller, session_id)
    request_id = uuid4()
    lost = await authority.leases.claim(request_id, uuid4())
    assert lost is not None
    await Deletions(authority.deletion_store, authority.belfry, patience=0.0).delete(caller, session_id)
    assert await authority.leases.claim(request_id, uuid4()) is None
    other = (await authority.sessions.create(caller, "", "", "", "")).id
    await authority.submit(caller, other)
    found = await authority.leases.claim(request_id, uuid4())
    assert found is not None
    assert found.session_id == other


async def test_an_idle_subscriber_is_told_that_its_session_is_gone(authority: Authority) -> None:
    caller, session_id = await authority.session()
    await lived(authority, caller, session_id)
    items = authority.subscriptions.follow(caller, session_id, 0, None)
    seen = 0

    async def drain(stream: AsyncIterator[Event | Delta]) -> None:
        nonlocal seen
        async for _ in stream:
            seen += 1

    watching = asyncio.create_task(drain(items))
    await eventually(lambda: seen >= 10, "the subscriber has seen the session")
    await authority.deletions.delete(caller, session_id)
    async with asyncio.timeout(10):
        with pytest.raises(NotFound):
            await watching


async def test_a_thousand_waiting_turns_go_at_once(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    for number in range(200):
        await authority.submit(caller, lease.session_id, f"{number}")
    await authority.admin.execute(
        """
        INSERT INTO authority.turns (tenant_id, id, session_id, principal_id, profile_id,
                                     profile_version, kind, trust, content, state, seq)
        SELECT t.tenant_id, gen_random_uuid(), t.session_id, t.principal_id, t.profile_id,
               t.profile_version, 'message', 'trusted', 'many', 'queued', 10000 + g
        FROM authority.turns t, generate_series(1, 1000) g WHERE t.id = $1
        """,
        lease.turn.id,
    )
    async with asyncio.timeout(30):
        await Deletions(authority.deletion_store, authority.belfry, patience=0.0).delete(
            caller, lease.session_id
        )
    assert await authority.count("turns") == 0


async def test_streamed_text_under_way_does_not_outlive_its_session(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    message_id = (await authority.append(lease, 1, BEGIN)).message_ids[0]
    await authority.admin.execute(
        """
        CREATE FUNCTION authority.hold() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NEW; END $$;
        CREATE TRIGGER hold BEFORE INSERT ON authority.deltas
            FOR EACH ROW EXECUTE FUNCTION authority.hold();
        SELECT pg_advisory_lock(77);
        """
    )
    authority.deltas.put(lease.tenant_id, lease.session_id, Delta(lease.turn.id, message_id, 1, 0, "t"))

    async def waiting(*events: str) -> bool:
        found: bool = await authority.admin.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND wait_event = ANY($1))",
            events,
        )
        return found

    await eventually(lambda: waiting("advisory"), "the text is being written")
    deleting = asyncio.create_task(authority.deletion_store.delete(caller, lease.session_id))

    async def blocked_or_done() -> bool:
        return deleting.done() or await waiting("transactionid", "tuple")

    await eventually(blocked_or_done, "the deletion has come to the turn")
    await authority.admin.execute("SELECT pg_advisory_unlock(77)")
    await deleting
    assert await authority.count("deltas") == 0
