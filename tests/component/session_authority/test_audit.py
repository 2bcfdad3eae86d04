"""The audit log on a real database: written with what it records, never rewritten unnoticed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from tests.component.session_authority.authority import Authority, Owner

from herma.common.errors import LastOwner, PermissionDenied
from herma.session_authority.anchoring import Anchors
from herma.session_authority.domain.audit import Action, Record, Verdict
from herma.session_authority.domain.principal import PrincipalChange
from herma.session_authority.domain.profile import ProfileSpec
from herma.session_authority.domain.rights import ProfileRight, Role
from herma.session_authority.refusals import Refusals
from herma.session_authority.store.audit import AuditFilter, record


async def records(authority: Authority, owner: Owner, action: str = "") -> list[Record]:
    wanted = AuditFilter(action=action)
    return list(await authority.audit.list(owner.caller, wanted, 0, 1000, oldest_first=True))


async def actions(authority: Authority, owner: Owner) -> list[str]:
    return [record.action for record in await records(authority, owner)]


async def verdict(authority: Authority, owner: Owner, anchors: Anchors | None = None) -> Verdict:
    tenant = owner.caller.tenant_id
    known = await anchors.of_tenant(tenant) if anchors is not None else ()
    return await authority.audit.verify(owner.caller, known)


async def test_what_is_done_is_recorded_once_and_by_whom(authority: Authority) -> None:
    owner = await authority.owner()
    member = await authority.colleague(owner)
    who = member.caller.principal_id
    await authority.profiles.apply(owner.caller, "clerk", ProfileSpec())
    await authority.profiles.apply(owner.caller, "clerk", ProfileSpec())
    for _ in range(2):
        grant = await authority.grants.add(owner.caller, who, "clerk", ProfileRight.EDIT)
        await authority.principals.change(owner.caller, who, PrincipalChange(role=Role.VIEWER))
    for _ in range(2):
        await authority.grants.remove(owner.caller, grant.id)
        await authority.keys.revoke(owner.caller, member.key_id, manages=True)
    made, _ = await authority.keys.create(owner.caller, "spare", ["read"], None)
    await authority.keys.rotate(owner.caller, made.id, timedelta(0))
    session = await authority.sessions.create(owner.caller, "", "", "", "")
    for _ in range(2):
        await authority.deletions.delete(owner.caller, session.id)
    assert await actions(authority, owner) == [
        "tenant.created",
        "key.created",
        "principal.created",
        "key.created",
        "profile.applied",
        "grant.added",
        "principal.changed",
        "grant.removed",
        "key.revoked",
        "key.created",
        "key.rotated",
        "session.deleted",
    ]
    found = await records(authority, owner)
    assert found[0].principal_id is found[1].principal_id is None
    assert {(record.principal_id, record.key_id) for record in found[2:]} == {
        (owner.caller.principal_id, owner.key_id)
    }
    assert found[-1].target == str(session.id)
    assert (await verdict(authority, owner)).holds


async def test_the_operator_has_it_in_the_own_log_too(authority: Authority) -> None:
    owner = await authority.owner("acme")
    operator = await authority.operator()
    (made,) = [
        record
        for record in await records(authority, operator, "tenant.created")
        if record.target == str(owner.caller.tenant_id)
    ]
    assert made.principal_id == operator.caller.principal_id


async def test_nothing_secret_is_in_it(authority: Authority) -> None:
    owner = await authority.owner()
    _, secret = await authority.keys.create(owner.caller, "spare", [], None)
    text = repr(await authority.admin.fetch("SELECT a::text FROM authority.audit a"))
    for key in (owner.key, secret):
        assert key not in text
        assert key.split("_", 2)[2] not in text


async def test_what_is_undone_is_not_recorded(authority: Authority) -> None:
    owner = await authority.owner()
    before = await authority.everything()
    with pytest.raises(LastOwner):
        await authority.principals.change(
            owner.caller, owner.caller.principal_id, PrincipalChange(disabled=True)
        )
    assert await authority.everything() == before


async def test_a_refusal_is_recorded_and_passes_on(authority: Authority) -> None:
    owner = await authority.owner()
    member = await authority.colleague(owner)
    now = 0.0
    refusals = Refusals(authority.audit, lambda: now)

    async def refused(times: int) -> int:
        for _ in range(times):
            with pytest.raises(PermissionDenied):
                async with refusals.noted(member.caller, Action.PRINCIPAL_CREATED, "robot"):
                    await authority.principals.create_service(member.caller, "robot", "", Role.OWNER)
        return len(await records(authority, owner, "principal.created"))

    at_first = await refused(0)
    assert await refused(1) == at_first + 1
    newest = (await records(authority, owner))[-1]
    assert (newest.outcome, newest.principal_id) == ("refused", member.caller.principal_id)
    # A flood of refusals is no flood of records.
    flooded = await refused(60)
    assert at_first < flooded <= at_first + 30
    now = 61.0
    assert await refused(1) == flooded + 1
    assert (await verdict(authority, owner)).holds


async def test_many_at_once_make_one_chain(authority: Authority) -> None:
    owner = await authority.owner()
    other = Authority(authority.admin, authority.service_url)
    await other.database.open()
    try:
        await asyncio.gather(
            *(
                replica.keys.create(owner.caller, f"key-{number}", ["read"], None)
                for number in range(40)
                for replica in (authority, other)
            )
        )
    finally:
        await other.database.close()
    found = await records(authority, owner)
    assert [record.seq for record in found] == list(range(1, len(found) + 1))
    assert len(found) == 82
    assert (await verdict(authority, owner)).holds


async def test_pages_and_filters(authority: Authority) -> None:
    owner = await authority.owner()
    for number in range(5):
        await authority.keys.create(owner.caller, f"key-{number}", ["read"], None)
    log, caller, everything = authority.audit, owner.caller, AuditFilter()
    newest = await log.list(caller, everything, 0, 3, oldest_first=False)
    assert [record.seq for record in newest] == [7, 6, 5]
    older = await log.list(caller, everything, newest[-1].seq, 3, oldest_first=False)
    assert [record.seq for record in older] == [4, 3, 2]
    for wanted, count in (
        (AuditFilter(action="key.created"), 6),
        (AuditFilter(principal_id=caller.principal_id), 5),
        (AuditFilter(principal_id=uuid4()), 0),
        (AuditFilter(target=newest[0].target), 1),
        (AuditFilter(since=datetime.now(UTC) + timedelta(hours=1)), 0),
        (AuditFilter(until=datetime.now(UTC) - timedelta(hours=1)), 0),
    ):
        assert len(await log.list(caller, wanted, 0, 100, oldest_first=True)) == count


async def test_another_tenant_sees_nothing_of_it(authority: Authority) -> None:
    owner, stranger = await authority.owner(), await authority.owner("other")
    mine = await records(authority, owner)
    theirs = await records(authority, stranger)
    assert {record.tenant_id for record in mine} == {owner.caller.tenant_id}
    assert {record.tenant_id for record in theirs} == {stranger.caller.tenant_id}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE authority.audit SET action = 'x'",
        "DELETE FROM authority.audit",
        "TRUNCATE authority.audit",
        "DELETE FROM authority.audit_heads",
    ],
)
async def test_its_service_cannot_rewrite_it(authority: Authority, statement: str) -> None:
    owner = await authority.owner()
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with authority.database.transaction(owner.caller.tenant_id) as connection:
            await connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE authority.audit SET action = 'x'",
        "DELETE FROM authority.audit",
        "TRUNCATE authority.audit",
    ],
)
async def test_nor_does_its_owner_by_mistake(authority: Authority, statement: str) -> None:
    await authority.owner()
    with pytest.raises(asyncpg.RaiseError, match="only added to"):
        await authority.admin.execute(statement)


async def test_what_a_superuser_does_to_it_shows(authority: Authority, tmp_path: Path) -> None:
    owner = await authority.owner()
    for number in range(5):
        await authority.keys.create(owner.caller, f"key-{number}", ["read"], None)
    anchors = Anchors(authority.audit, tmp_path / "anchors", "one")
    assert await anchors.anchor() == 2
    await authority.admin.execute("ALTER TABLE authority.audit DISABLE TRIGGER USER")
    forged = """
        UPDATE authority.audit_heads h SET (seq, hash) =
            (SELECT seq, hash FROM authority.audit a WHERE a.tenant_id = h.tenant_id
             ORDER BY seq DESC LIMIT 1)
    """
    for statement in (
        "UPDATE authority.audit SET principal_id = gen_random_uuid() WHERE seq = 4",
        "UPDATE authority.audit SET at = at + interval '1 second' WHERE seq = 4",
        "UPDATE authority.audit SET details = '{\"x\": 1}' WHERE seq = 4",
        "DELETE FROM authority.audit WHERE seq = 4",
        "DELETE FROM authority.audit WHERE seq >= 6",
        f"DELETE FROM authority.audit WHERE seq >= 6; {forged}",
        "DELETE FROM authority.audit; DELETE FROM authority.audit_heads",
        "UPDATE authority.audit_heads SET seq = seq + 1",
    ):
        heads = await authority.admin.fetch("SELECT * FROM authority.audit_heads")
        everything = await authority.admin.fetch("SELECT * FROM authority.audit")
        await authority.admin.execute(statement)
        found = await verdict(authority, owner, anchors)
        assert not found.holds, statement
        await authority.admin.execute("DELETE FROM authority.audit; DELETE FROM authority.audit_heads")
        await authority.admin.copy_records_to_table(
            "audit", schema_name="authority", records=[tuple(row) for row in everything]
        )
        await authority.admin.copy_records_to_table(
            "audit_heads", schema_name="authority", records=[tuple(row) for row in heads]
        )
        assert (await verdict(authority, owner, anchors)).holds


async def test_anchors_outlive_a_crash_and_meet_no_other(authority: Authority, tmp_path: Path) -> None:
    owner = await authority.owner()
    folder = tmp_path / "anchors"
    first = Anchors(authority.audit, folder, "first")
    await first.anchor()
    assert await first.anchor() == 0
    await authority.keys.create(owner.caller, "spare", [], None)
    assert await first.anchor() == 1
    # A crash in the middle of a line: the next anchor is whole all the same.
    with (folder / "first.jsonl").open("a") as file:
        file.write('{"at": "2026-')
    again = Anchors(authority.audit, folder, "first")
    await authority.keys.create(owner.caller, "spare", [], None)
    assert await again.anchor() == 2
    other = Anchors(authority.audit, folder, "second")
    await other.anchor()
    found = await verdict(authority, owner, other)
    assert found.holds
    assert found.anchors == 3


async def test_a_long_log_is_checked(authority: Authority) -> None:
    owner = await authority.owner()
    async with authority.database.transaction(owner.caller.tenant_id) as connection:
        for number in range(2_500):
            await record(connection, owner.caller, Action.KEY_CREATED, number)
    found = await verdict(authority, owner)
    assert (found.holds, found.records) == (True, 2_502)
