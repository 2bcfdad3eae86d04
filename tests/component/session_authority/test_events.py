"""A session's stream: gapless, in order, and the same for everybody who follows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from uuid import UUID, uuid4

import pytest
from tests.component.session_authority.authority import (
    ANSWERED,
    BEGIN,
    Authority,
    completed,
)
from tests.support.waiting import eventually

from herma.common.errors import CursorOutOfRange, NotFound
from herma.session_authority.domain.model import Caller, Delta, Event, Lease
from herma.session_authority.domain.operations import Status


class Follower:
    """A subscriber that takes what comes."""

    def __init__(self) -> None:
        self.items: list[Event | Delta] = []

    @property
    def seqs(self) -> list[int]:
        return [item.seq for item in self.items if isinstance(item, Event)]

    @property
    def kinds(self) -> list[str]:
        return [item.kind for item in self.items if isinstance(item, Event)]

    @property
    def text(self) -> str:
        """The streamed text; fails unless each piece follows the last."""
        text = ""
        for item in self.items:
            if isinstance(item, Delta):
                assert item.offset == len(text)
                text += item.text
        return text


@asynccontextmanager
async def following(
    authority: Authority, caller: Caller, session_id: UUID, after: int = 0, turn_id: UUID | None = None
) -> AsyncIterator[tuple[Follower, asyncio.Task[None]]]:
    follower = Follower()

    async def follow() -> None:
        async for item in authority.subscriptions.follow(caller, session_id, after, turn_id):
            follower.items.append(item)

    task = asyncio.create_task(follow())
    try:
        yield follower, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def first(authority: Authority, caller: Caller, session_id: UUID, *cursor: object) -> None:
    """Asks for the first item of a subscription."""
    stream = cast(
        AsyncGenerator[Event | Delta], authority.subscriptions.follow(caller, session_id, *cursor)
    )
    try:
        await anext(stream)
    finally:
        await stream.aclose()


def say(authority: Authority, lease: Lease, message_id: UUID, offset: int, text: str) -> None:
    authority.deltas.put(
        lease.tenant_id, lease.session_id, Delta(lease.turn.id, message_id, 1, offset, text)
    )


async def test_events_are_gapless_under_simultaneous_writers(authority: Authority) -> None:
    caller, lease = await authority.claimed()

    async def submit() -> None:
        for _ in range(5):
            await authority.submit(caller, lease.session_id)

    async def append() -> None:
        for number in range(1, 21):
            await authority.append(lease, number, Status(f"{number}a"), Status(f"{number}b"))

    async with following(authority, caller, lease.session_id) as (follower, _):
        await asyncio.gather(append(), *(submit() for _ in range(8)))
        authority.belfry.ring_session(lease.session_id)
        expected = list(range(1, 2 + 40 + 40 + 1))
        assert [seq for seq, _, _ in await authority.events(lease.session_id)] == expected
        await eventually(lambda: len(follower.seqs) >= len(expected), "all events are seen")
        assert follower.seqs == expected
    session = await authority.sessions.get(caller, lease.session_id)
    assert session.last_seq == expected[-1]


async def test_a_subscriber_replays_then_follows_to_the_end_of_its_turn(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    turn_id = lease.turn.id
    async with following(authority, caller, lease.session_id, 1, turn_id) as (follower, task):
        await eventually(lambda: follower.kinds == ["turn.started"], "the past is replayed")
        begun = await authority.append(lease, 1, BEGIN)
        authority.belfry.ring_session(lease.session_id)
        await eventually(lambda: follower.kinds[1:] == ["message.started"], "the present is followed")
        await authority.append(lease, 2, completed(begun.message_ids[0], "done"), finish=ANSWERED)
        await authority.submit(caller, lease.session_id, "next")
        authority.belfry.ring_session(lease.session_id)
        await asyncio.wait_for(task, 10)
    assert follower.kinds == ["turn.started", "message.started", "message.completed", "turn.ended"]


async def test_a_lost_ring_only_costs_time(authority: Authority) -> None:
    caller, session_id = await authority.session()
    async with following(authority, caller, session_id) as (follower, _):
        await asyncio.sleep(0.1)
        await authority.submit(caller, session_id)
        await eventually(lambda: follower.kinds == ["turn.queued"], "the event is found", 10)


@pytest.mark.parametrize("after", range(5))
async def test_a_cursor_misses_nothing_and_repeats_nothing(authority: Authority, after: int) -> None:
    caller, lease = await authority.claimed()
    await authority.append(lease, 1, Status("one"))
    await authority.append(lease, 2, finish=ANSWERED)
    async with following(authority, caller, lease.session_id, after, lease.turn.id) as (follower, task):
        await asyncio.wait_for(task, 10)
    assert follower.seqs == list(range(after + 1, 5))


async def test_long_replays_come_in_order(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    for number in range(1, 6):
        await authority.append(lease, number, *(Status(f"{line}") for line in range(250)))
    await authority.append(lease, 6, finish=ANSWERED)
    async with following(authority, caller, lease.session_id, 0, lease.turn.id) as (follower, task):
        await asyncio.wait_for(task, 20)
    assert follower.seqs == list(range(1, 2 + 5 * 250 + 2))


async def test_a_cursor_beyond_the_newest_event_is_out_of_range(authority: Authority) -> None:
    caller, session_id = await authority.session()
    await authority.submit(caller, session_id)
    with pytest.raises(CursorOutOfRange):
        await first(authority, caller, session_id, 2, None)


async def test_an_unknown_turn_cannot_be_followed(authority: Authority) -> None:
    caller, session_id = await authority.session()
    await authority.submit(caller, session_id)
    with pytest.raises(NotFound):
        await first(authority, caller, session_id, 0, uuid4())


async def test_text_is_contiguous_though_its_batches_come_out_of_order(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    message_id = (await authority.append(lease, 1, BEGIN)).message_ids[0]
    async with following(authority, caller, lease.session_id) as (follower, _):
        say(authority, lease, message_id, 0, "Grüße 🙂")
        await eventually(lambda: follower.text == "Grüße 🙂", "the first piece is seen")
        say(authority, lease, message_id, 10, "b")
        await eventually(lambda: _stored(authority, 2), "the last piece is stored")
        assert follower.text == "Grüße 🙂"
        say(authority, lease, message_id, 7, "und")
        await eventually(lambda: follower.text == "Grüße 🙂undb", "all is seen")


async def test_who_comes_late_gets_the_text_so_far(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    message_id = (await authority.append(lease, 1, BEGIN)).message_ids[0]
    say(authority, lease, message_id, 0, "Hello ")
    await eventually(lambda: _stored(authority, 1), "the piece is stored")
    session = await authority.sessions.get(caller, lease.session_id)
    for after in range(session.last_seq + 1):
        async with following(authority, caller, lease.session_id, after) as (follower, _):
            await eventually(lambda seen=follower: seen.text == "Hello ", "the text is seen")  # type: ignore[misc]
            assert isinstance(follower.items[-1], Delta)


async def test_text_of_a_discarded_message_is_not_joined_to_the_next(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    old = (await authority.append(lease, 1, BEGIN)).message_ids[0]
    say(authority, lease, old, 0, "Wrong")
    await eventually(lambda: _stored(authority, 1), "the text is stored")
    new = (await authority.append(lease, 2, BEGIN)).message_ids[0]
    assert await authority.count("deltas") == 0
    say(authority, lease, old, 5, " and late")
    say(authority, lease, new, 0, "Right")
    async with following(authority, caller, lease.session_id) as (follower, _):
        await eventually(lambda: follower.text == "Right", "only the new text is seen")
    await authority.append(lease, 3, BEGIN)
    await authority.append(lease, 4, BEGIN)
    rows = await authority.admin.fetch(
        "SELECT data FROM authority.events WHERE kind = 'message.discarded' ORDER BY seq"
    )
    assert [json.loads(row["data"])["streamed"] for row in rows] == [True, True, False]


async def test_text_is_pruned_when_its_message_completes(authority: Authority) -> None:
    _, lease = await authority.claimed()
    message_id = (await authority.append(lease, 1, BEGIN)).message_ids[0]
    say(authority, lease, message_id, 0, "done")
    await eventually(lambda: _stored(authority, 1), "the text is stored")
    await authority.append(lease, 2, completed(message_id, "done"))
    assert await authority.count("deltas") == 0


async def _stored(authority: Authority, pieces: int) -> bool:
    return await authority.count("deltas") == pieces
