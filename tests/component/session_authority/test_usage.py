"""Usage: every turn counts once, to whom it belongs, whatever became of its session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.component.session_authority.authority import ANSWERED, BEGIN, Authority, Owner, completed

from herma.session_authority.domain.model import Usage
from herma.session_authority.domain.usage import Grouping, UsageQuestion, UsageSum

EVERYTHING = tuple(Grouping)
# Of one model call: see `completed`.
ONE = Usage(10, 5)


async def worked(authority: Authority, who: Owner, times: int = 1, profile: str = "") -> UUID:
    """A session in which the model was asked once a turn."""
    session = await authority.sessions.create(who.caller, profile, "", "", "")
    for _ in range(times):
        await authority.submit(who.caller, session.id)
        lease = await authority.claim()
        begun = await authority.append(lease, 1, BEGIN)
        answer = completed(begun.message_ids[0], "Yes.")
        await authority.append(lease, 2, answer, finish=ANSWERED)
    return session.id


async def sums(
    authority: Authority, who: Owner, *by: Grouping, tenant: bool = False, **bounds: datetime
) -> list[UsageSum]:
    question = UsageQuestion(tenant, by, **bounds)
    return list(await authority.usage.sums(who.caller, question, 0, 100))


async def test_turns_and_tokens_are_summed_up(authority: Authority) -> None:
    owner = await authority.owner()
    (nothing,) = await sums(authority, owner)
    assert (nothing.turns, nothing.usage) == (0, Usage())
    first, second = await worked(authority, owner, 2), await worked(authority, owner)
    (all_of_it,) = await sums(authority, owner)
    assert (all_of_it.turns, all_of_it.usage) == (3, Usage(30, 15))
    by_session = {one.session_id: one.turns for one in await sums(authority, owner, Grouping.SESSION)}
    assert by_session == {first: 2, second: 1}
    (day,) = await sums(authority, owner, Grouping.DAY, Grouping.PROFILE, Grouping.PRINCIPAL)
    assert (day.day, day.profile) == (datetime.now(UTC).date(), "default")
    assert (day.principal_id, day.session_id) == (owner.caller.principal_id, None)


async def test_what_a_deleted_session_used_counts_on(authority: Authority) -> None:
    owner = await authority.owner()
    session_id = await worked(authority, owner, 2)
    await worked(authority, owner)
    before = await sums(authority, owner, *EVERYTHING)
    for _ in range(2):
        await authority.deletions.delete(owner.caller, session_id)
    assert await sums(authority, owner, *EVERYTHING) == before
    assert await authority.count("turns") == 1


async def test_everybody_sees_the_own_and_the_tenant_all(authority: Authority) -> None:
    owner = await authority.owner()
    colleague = await authority.colleague(owner)
    stranger = await authority.owner("other")
    for who in (owner, colleague, colleague, stranger):
        await worked(authority, who)
    assert [one.turns for one in await sums(authority, colleague)] == [2]
    assert [one.turns for one in await sums(authority, owner, tenant=True)] == [3]
    by_principal = await sums(authority, owner, Grouping.PRINCIPAL, tenant=True)
    assert {one.principal_id: one.turns for one in by_principal} == {
        owner.caller.principal_id: 1,
        colleague.caller.principal_id: 2,
    }
    assert [one.turns for one in await sums(authority, stranger, tenant=True)] == [1]


async def test_bounds_cut_turns_off(authority: Authority) -> None:
    owner = await authority.owner()
    await worked(authority, owner)
    now, hour = datetime.now(UTC), timedelta(hours=1)
    for bounds, turns in (
        ({"since": now - hour}, 1),
        ({"since": now + hour}, 0),
        ({"until": now + hour}, 1),
        ({"until": now - hour}, 0),
        ({"since": now - hour, "until": now + hour}, 1),
    ):
        assert [one.turns for one in await sums(authority, owner, **bounds)] == [turns]
        assert len(await sums(authority, owner, Grouping.DAY, **bounds)) == turns


async def test_pages_meet_without_a_gap(authority: Authority) -> None:
    owner = await authority.owner()
    made = {await worked(authority, owner) for _ in range(5)}
    question = UsageQuestion(False, (Grouping.SESSION,))
    pages = [await authority.usage.sums(owner.caller, question, offset, 2) for offset in (0, 2, 4)]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert {one.session_id for page in pages for one in page} == made
    assert all(one.usage == ONE for page in pages for one in page)
