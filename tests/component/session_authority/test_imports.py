"""Sessions that begin with what was said elsewhere: in one transaction, once, at the beginning."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest
from tests.component.session_authority.authority import ANSWERED, BEGIN, Authority, completed

from herma.common.errors import IdempotencyConflict, NotFound
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.new_session import ImportedMessage, NewSession

HISTORY = (
    ImportedMessage("user", "one\r\n\u2028"),
    ImportedMessage("assistant", "two 🜂"),
    ImportedMessage("user", ""),
)
NEW = NewSession("", "", "", "Be kind.", HISTORY)


async def test_history_is_there_before_the_first_turn(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    admitted = await authority.sessions.submit(caller, NEW, "four", "", "")
    lease = await authority.claim()
    assert lease.turn.id == admitted.turn_id
    assert lease.instructions == "Be kind."
    said = [(message.role, message.content, message.turn_id) for message in lease.history]
    assert said == [
        *((message.role, message.content, None) for message in HISTORY),
        ("user", "four", admitted.turn_id),
    ]
    begun = await authority.append(lease, 1, BEGIN)
    await authority.append(lease, 2, completed(begun.message_ids[0], "five"), finish=ANSWERED)
    messages = await authority.sessions.messages(caller, admitted.session_id, 0, 100)
    assert [message.position for message in messages] == [1, 2, 3, 4, 5]
    assert [message.content for message in messages[:3]] == [message.content for message in HISTORY]
    page = await authority.sessions.messages(caller, admitted.session_id, 1, 2)
    assert [message.position for message in page] == [2, 3]


async def test_what_is_imported_is_its_importers(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    session = await authority.sessions.create(caller, "", "", "", "", "Be kind.", HISTORY)
    rows = await authority.admin.fetch(
        "SELECT tenant_id, principal_id, trust, turn_id FROM authority.messages WHERE session_id = $1",
        session.id,
    )
    assert [tuple(row) for row in rows] == [(*_ids(caller), "trusted", None)] * 3
    other = (await authority.owner("other")).caller
    with pytest.raises(NotFound):
        await authority.sessions.messages(other, session.id, 0, 100)


async def test_equal_requests_at_once_are_one_session_and_one_turn(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    answers = await asyncio.gather(
        *(authority.sessions.submit(caller, NEW, "four", "key-1", "") for _ in range(20))
    )
    assert len(set(answers)) == 1
    assert await authority.count("sessions") == 1
    assert await authority.count("turns") == 1
    assert await authority.count("messages") == 3


async def test_the_key_stands_for_all_of_the_request(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    made = await authority.sessions.submit(caller, NEW, "four", "key-1", "", "f")
    before = await authority.everything()
    others = [
        (NEW, "five", "f"),
        (NEW, "four", "g"),
        (replace(NEW, instructions="Be rude."), "four", "f"),
        (replace(NEW, history=HISTORY[:2]), "four", "f"),
        (replace(NEW, history=()), "four", "f"),
        (replace(NEW, history=(*HISTORY[:2], ImportedMessage("assistant", ""))), "four", "f"),
        (replace(NEW, key="openai:a"), "four", "f"),
        (made.session_id, "four", "f"),
    ]
    for target, content, fingerprint in others:
        with pytest.raises(IdempotencyConflict):
            await authority.sessions.submit(caller, target, content, "key-1", "", fingerprint)
    assert await authority.sessions.submit(caller, NEW, "four", "key-1", "", "f") == made
    assert await authority.everything() == before


async def test_a_refused_request_makes_no_session(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    before = await authority.everything()
    with pytest.raises(NotFound) as refused:
        await authority.sessions.submit(caller, replace(NEW, profile="nobody"), "four", "key-1", "")
    assert refused.value.reason == "PROFILE_NOT_FOUND"
    assert await authority.everything() == before


async def test_a_key_takes_the_session_that_it_names_as_it_is(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    new = replace(NEW, key="openai:default:ann")
    admitted = await asyncio.gather(
        *(authority.sessions.submit(caller, new, f"{number}", "", "") for number in range(5))
    )
    assert len({admission.session_id for admission in admitted}) == 1
    again = replace(new, instructions="Be rude.", history=HISTORY * 2)
    last = await authority.sessions.submit(caller, again, "last", "", "")
    assert last.session_id == admitted[0].session_id
    assert await authority.count("messages") == 3
    assert (await authority.claim()).instructions == "Be kind."
    stranger = (await authority.owner("other")).caller
    other = await authority.sessions.submit(stranger, new, "mine", "", "")
    assert other.session_id != last.session_id


def _ids(caller: Caller) -> tuple[UUID, UUID]:
    return caller.tenant_id, caller.principal_id
