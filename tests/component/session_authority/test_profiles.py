"""Profiles: versions that never change, turns that pin them, and prompts that follow."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.component.session_authority.authority import ANSWERED, BEGIN, Authority, completed

from herma.common.errors import NotFound, ProfileChanged
from herma.session_authority.domain.model import Caller, Lease
from herma.session_authority.domain.profile import Outcome, ProfileSpec

REVIEWER = ProfileSpec(persona="You review.", tools=("read_file",))


async def run_turn(authority: Authority, lease: Lease, prompt: str) -> None:
    """Runs a claimed turn to its answer, building the prompt if the lease brings none."""
    begin = replace(BEGIN, system_prompt="" if lease.system_prompt else prompt)
    begun = await authority.append(lease, 1, begin)
    await authority.append(lease, 2, completed(begun.message_ids[0], "done"), finish=ANSWERED)


async def test_applying_makes_versions_only_where_something_differs(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    made, outcome = await authority.profiles.apply(caller, "reviewer", REVIEWER)
    assert (made.version, outcome) == (1, Outcome.CREATED)
    before = await authority.everything()
    assert await authority.profiles.apply(caller, "reviewer", REVIEWER) == (made, Outcome.UNCHANGED)
    assert await authority.everything() == before
    changed = replace(REVIEWER, model="other")
    new, outcome = await authority.profiles.apply(caller, "reviewer", changed)
    assert (new.id, new.version, outcome) == (made.id, 2, Outcome.UPDATED)
    assert await authority.profiles.get(caller, "reviewer", 1) == made
    assert await authority.profiles.get(caller, "reviewer") == new
    back, _ = await authority.profiles.apply(caller, "reviewer", REVIEWER)
    assert (back.version, back.spec) == (3, made.spec)


async def test_a_stale_expectation_is_refused_and_a_repeat_is_not(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    with pytest.raises(ProfileChanged):
        await authority.profiles.apply(caller, "reviewer", REVIEWER, 1)
    assert [p.name for p in await authority.profiles.list(caller, "", 10)] == ["default"]
    await authority.profiles.apply(caller, "reviewer", REVIEWER)
    changed = replace(REVIEWER, model="other")
    first = await authority.profiles.apply(caller, "reviewer", changed, 1)
    assert first[0].version == 2
    assert await authority.profiles.apply(caller, "reviewer", changed, 1) == (
        first[0],
        Outcome.UNCHANGED,
    )
    with pytest.raises(ProfileChanged) as refusal:
        await authority.profiles.apply(caller, "reviewer", replace(REVIEWER, model="third"), 1)
    assert refusal.value.metadata == {"version": "2"}
    assert (await authority.profiles.get(caller, "reviewer")).version == 2


async def test_many_at_once_make_one_profile_and_gapless_versions(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    same = await asyncio.gather(*(authority.profiles.apply(caller, "one", REVIEWER) for _ in range(10)))
    assert {profile.version for profile, _ in same} == {1}
    assert sorted(outcome for _, outcome in same).count(Outcome.CREATED) == 1
    different = await asyncio.gather(
        *(authority.profiles.apply(caller, "one", replace(REVIEWER, model=f"m{n}")) for n in range(10))
    )
    assert sorted(profile.version for profile, _ in different) == list(range(2, 12))
    fenced = await asyncio.gather(
        *(
            authority.profiles.apply(caller, "one", replace(REVIEWER, model=f"f{n}"), 11)
            for n in range(5)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, ProfileChanged) for answer in fenced) == 4


async def test_another_tenants_profiles_do_not_exist(authority: Authority) -> None:
    one, other = (await authority.owner("one")).caller, (await authority.owner("two")).caller
    await authority.profiles.apply(one, "reviewer", REVIEWER)
    for stranger in (other, Caller(uuid4(), uuid4())):
        with pytest.raises(NotFound):
            await authority.profiles.get(stranger, "reviewer")
        assert "reviewer" not in {p.name for p in await authority.profiles.list(stranger, "", 10)}
    with pytest.raises(NotFound):
        await authority.sessions.create(other, "reviewer", "", "", "")
    mine, outcome = await authority.profiles.apply(other, "reviewer", replace(REVIEWER, model="mine"))
    assert (mine.version, outcome) == (1, Outcome.CREATED)
    assert (await authority.profiles.get(one, "reviewer")).spec == REVIEWER.to_json()


async def test_profiles_are_listed_by_name_in_pages(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    for name in ("zeta", "alpha", "beta"):
        await authority.profiles.apply(caller, name, REVIEWER)
    await authority.profiles.apply(caller, "beta", replace(REVIEWER, model="new"))
    first = await authority.profiles.list(caller, "", 2)
    rest = await authority.profiles.list(caller, first[-1].name, 10)
    assert [p.name for p in (*first, *rest)] == ["alpha", "beta", "default", "zeta"]
    assert first[1].version == 2


async def test_a_turn_keeps_the_version_that_it_was_admitted_under(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    await authority.profiles.apply(caller, "reviewer", REVIEWER)
    session_id = (await authority.sessions.create(caller, "reviewer", "", "", "")).id
    running = await authority.submit(caller, session_id, "one")
    await authority.submit(caller, session_id, "two")
    lease = await authority.claim()
    await authority.profiles.apply(caller, "reviewer", replace(REVIEWER, persona="You are brief."))
    await authority.submit(caller, session_id, "three")
    assert lease.turn.id == running.turn_id
    # A crash in between: the next runner gets the same version.
    await authority.lapse()
    await authority.leases.take_back_lapsed()
    versions = []
    for _ in range(3):
        lease = await authority.claim()
        versions.append((lease.profile.version, json.loads(lease.profile.spec)["persona"]))
        await run_turn(authority, lease, "prompt")
    assert versions == [(1, "You review."), (1, "You review."), (2, "You are brief.")]


async def test_a_changed_profile_rebuilds_the_prompt_once(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    await authority.profiles.apply(caller, "reviewer", REVIEWER)
    session_id = (await authority.sessions.create(caller, "reviewer", "", "", "")).id
    brought = []
    for turn, persona in enumerate(("You review.", "", "You are brief.", "", "You review.")):
        if persona:
            await authority.profiles.apply(caller, "reviewer", replace(REVIEWER, persona=persona))
        await authority.submit(caller, session_id, f"{turn}")
        lease = await authority.claim()
        brought.append(lease.system_prompt)
        await run_turn(authority, lease, f"built in turn {turn}")
    assert brought == ["", "built in turn 0", "", "built in turn 2", ""]


async def test_a_turn_taken_over_keeps_the_prompt_of_its_version(authority: Authority) -> None:
    caller, session_id = await authority.session()
    await authority.submit(caller, session_id, "one")
    lease = await authority.claim()
    await authority.append(lease, 1, replace(BEGIN, system_prompt="under version 1"))
    await authority.profiles.apply(caller, "default", REVIEWER)
    await authority.lapse()
    await authority.leases.take_back_lapsed()
    assert (await authority.claim()).system_prompt == "under version 1"


async def test_a_stored_spec_with_fewer_fields_says_the_same(authority: Authority) -> None:
    caller = (await authority.owner()).caller
    await authority.profiles.apply(caller, "old", ProfileSpec(persona="p"))
    await authority.admin.execute("""UPDATE authority.profile_versions SET spec = '{"persona": "p"}'""")
    _, outcome = await authority.profiles.apply(caller, "old", ProfileSpec(persona="p"))
    assert outcome is Outcome.UNCHANGED
