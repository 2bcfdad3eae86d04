"""What a turn is built from beside its message: recorded once, found by every later attempt."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.component.session_authority.authority import (
    ANSWERED,
    BEGIN,
    Authority,
    completed,
)

from herma.session_authority.domain.operations import Status


async def contexts(authority: Authority) -> list[str | None]:
    rows = await authority.admin.fetch("SELECT context FROM authority.messages ORDER BY position")
    return [row["context"] for row in rows]


async def test_a_context_is_recorded_once_and_answered_with_its_message(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    assert lease.history[0].context is None
    await authority.append(lease, 1, replace(BEGIN, turn_context="<recalled>"), Status("1", 1))
    begun = await authority.append(lease, 2, BEGIN)
    # Another attempt would have recalled something else by now: what was recorded stays.
    await authority.append(lease, 3, replace(BEGIN, turn_context="changed"))
    await authority.lapse()
    await authority.leases.take_back_lapsed()
    again = await authority.claim()
    assert [message.context for message in again.history] == ["<recalled>"]
    begun = await authority.append(again, 4, BEGIN)
    answer = completed(begun.message_ids[0], "hi")
    await authority.append(again, 5, answer, finish=ANSWERED)
    await authority.submit(caller, lease.session_id, "next")
    following = await authority.claim()
    assert [message.context for message in following.history] == ["<recalled>", None, None]
    await authority.append(following, 1, replace(BEGIN, turn_context=""))
    assert await contexts(authority) == ["<recalled>", None, ""]


async def test_the_indicator_is_an_event_of_the_same_step(authority: Authority) -> None:
    _, lease = await authority.claimed()
    await authority.append(
        lease, 1, replace(BEGIN, turn_context="x"), Status("2 memories used", 2), Status("plain")
    )
    rows = await authority.admin.fetch(
        "SELECT data FROM authority.events WHERE kind = 'status' ORDER BY seq"
    )
    assert [json.loads(row["data"]) for row in rows] == [
        {"text": "2 memories used", "recalled": 2},
        {"text": "plain"},
    ]


async def test_a_provisional_prompt_holds_for_its_turn_alone(authority: Authority) -> None:
    caller, lease = await authority.claimed()
    await authority.append(
        lease, 1, replace(BEGIN, system_prompt="without notes", provisional_prompt=True)
    )
    await authority.lapse()
    await authority.leases.take_back_lapsed()
    again = await authority.claim()
    assert again.system_prompt == "without notes"
    begun = await authority.append(again, 2, replace(BEGIN, system_prompt=""))
    answer = completed(begun.message_ids[0], "hi")
    await authority.append(again, 3, answer, finish=ANSWERED)
    await authority.submit(caller, lease.session_id, "next")
    following = await authority.claim()
    assert following.system_prompt == ""
    begun = await authority.append(following, 1, replace(BEGIN, system_prompt="with notes"))
    answer = completed(begun.message_ids[0], "hi")
    await authority.append(following, 2, answer, finish=ANSWERED)
    await authority.submit(caller, lease.session_id, "last")
    assert (await authority.claim()).system_prompt == "with notes"


async def test_nothing_else_of_a_message_may_be_changed(authority: Authority) -> None:
    granted = await authority.admin.fetch(
        "SELECT column_name FROM information_schema.column_privileges"
        " WHERE grantee = 'herma_authority_service' AND table_name = 'messages'"
        " AND privilege_type = 'UPDATE'"
    )
    assert [row["column_name"] for row in granted] == ["context"]
