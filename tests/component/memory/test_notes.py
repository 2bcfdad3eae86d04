"""Notes: edited by entry, within a budget; a stale edit is refused, concurrent ones all take effect."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from tests.component.memory.service import Memory

from herma.api.memory.v1 import memory_pb2 as pb
from herma.common.errors import IdempotencyConflict, InvalidArgument, NoteChanged

ADD, REPLACE, REMOVE = pb.NOTE_ACTION_ADD, pb.NOTE_ACTION_REPLACE, pb.NOTE_ACTION_REMOVE


async def test_entries_are_added_replaced_and_removed(memory: Memory) -> None:
    turn = memory.turn()
    first = (await turn.add("MEMORY", " Deploys happen on Monday ")).entry_id
    second = (await turn.add("MEMORY", "The repository is called herma")).entry_id
    await turn.edit("MEMORY", REPLACE, entry=first, text="Deploys happen on Friday")
    await turn.edit("MEMORY", REMOVE, entry="repository")
    third = await turn.add("MEMORY", "Tests run at night")
    assert await turn.notes("MEMORY") == ["Deploys happen on Friday", "Tests run at night"]
    assert await turn.notes("USER") == []
    assert third.entry_id not in (first, second)
    assert third.note.version == 5
    assert await memory.turn(turn.identity).notes("MEMORY") == await turn.notes("MEMORY")


async def test_an_entry_is_named_beyond_doubt(memory: Memory) -> None:
    turn = memory.turn()
    await turn.add("USER", "likes green tea")
    await turn.add("USER", "likes black tea")
    with pytest.raises(InvalidArgument) as ambiguous:
        await turn.edit("USER", REMOVE, entry="tea")
    assert "[1]" in ambiguous.value.message
    assert "black tea" in ambiguous.value.message
    for entry in ("coffee", "", "99"):
        with pytest.raises(InvalidArgument) as nothing:
            await turn.edit("USER", REPLACE, entry=entry, text="x")
        assert "likes green tea" in nothing.value.message
    assert len(await turn.notes("USER")) == 2


async def test_the_budget_is_kept_and_taught(memory: Memory) -> None:
    turn = memory.turn()
    await turn.add("USER", "a" * 3_990)
    with pytest.raises(InvalidArgument) as refused:
        await turn.add("USER", "b" * 11)
    assert "4001 characters, 4000 is the most" in refused.value.message
    assert "[1] (3990 characters)" in refused.value.message
    await turn.add("USER", "b" * 10)
    assert [len(entry) for entry in await turn.notes("USER")] == [3990, 10]
    for text in ("", "  ", "nul\0"):
        with pytest.raises(InvalidArgument):
            await turn.add("MEMORY", text)
    with pytest.raises(InvalidArgument):
        await turn.add("OTHER", "x")
    with pytest.raises(InvalidArgument):
        await turn.edit("USER", pb.NOTE_ACTION_UNSPECIFIED, text="x")


async def test_a_stale_edit_is_refused(memory: Memory) -> None:
    turn = memory.turn()
    version = (await turn.add("MEMORY", "one")).note.version
    await turn.add("MEMORY", "two")
    with pytest.raises(NoteChanged):
        await turn.edit("MEMORY", REMOVE, entry="one", version=version)
    assert await turn.notes("MEMORY") == ["one", "two"]
    await turn.edit("MEMORY", REMOVE, entry="one", version=version + 1)
    with pytest.raises(NoteChanged):
        await turn.edit("USER", ADD, text="x", version=3)


async def test_the_same_call_edits_once(memory: Memory) -> None:
    turn, call = memory.turn(), str(uuid4())
    answers = await asyncio.gather(*(turn.add("MEMORY", "one", call) for _ in range(6)))
    await turn.add("MEMORY", "two")
    answers.append(await turn.add("MEMORY", "one", call))
    assert {(a.entry_id, a.note.version, len(a.note.entries)) for a in answers} == {("1", 1, 1)}
    gone = str(uuid4())
    for _ in range(2):
        await turn.edit("MEMORY", REMOVE, entry="one", call_id=gone)
    with pytest.raises(IdempotencyConflict):
        await turn.edit("MEMORY", REMOVE, entry="two", call_id=gone)
    assert await turn.notes("MEMORY") == ["two"]


async def test_concurrent_writers_all_take_effect(memory: Memory) -> None:
    turn = memory.turn()
    answers = await asyncio.gather(*(turn.add("MEMORY", f"entry {n}") for n in range(24)))
    assert sorted(await turn.notes("MEMORY")) == sorted(f"entry {n}" for n in range(24))
    assert len({answer.entry_id for answer in answers}) == 24


async def test_recall_answers_notes_and_facts_at_once(memory: Memory) -> None:
    turn = memory.turn()
    await turn.add("USER", "is called Ada")
    await turn.remember("Ada has a zebra")
    request = pb.RecallRequest(query="zebra?", max_facts=5, with_notes=True)
    answer = await turn.call("Recall", request)
    assert [(n.name, [e.text for e in n.entries], n.budget) for n in answer.notes] == [
        ("MEMORY", [], 8000),
        ("USER", ["is called Ada"], 4000),
    ]
    assert [found.fact.text for found in answer.facts] == ["Ada has a zebra"]
    assert not (await turn.call("Recall", pb.RecallRequest(query="zebra", max_facts=5))).notes
