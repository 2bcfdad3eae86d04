"""What is told in one scope is recalled in that scope and in no other: a property over random scopes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4, uuid5

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.component.memory.service import Memory, Turn, new_identity, served

from herma.common.errors import NotFound

Scope = tuple[int, int, int]

# Few of each, so that scopes that differ in one part alone are common.
_PART = st.integers(0, 2)
_SCOPE = st.tuples(_PART, _PART, _PART)
_WORDS = ("zebra", "café", "北京", "東京タワー", "서울", "Łódź")


@dataclass(frozen=True, slots=True)
class Told:
    """One thing told in a scope."""

    scope: Scope
    word: str


_TOLD = st.lists(st.builds(Told, _SCOPE, st.sampled_from(_WORDS)), min_size=1, max_size=12)


def turn_of(memory: Memory, space: UUID, scope: Scope) -> Turn:
    """A turn of the scope.  The same number is the same id in each part: a part may never stand in for
    another."""
    parts = [uuid5(space, str(number)) for number in scope]
    return memory.turn(new_identity(*parts))


@settings(max_examples=15, deadline=None)
@given(told=_TOLD, asked=st.lists(_SCOPE, min_size=1, max_size=6))
def test_recalled_by_the_same_scope_alone(
    database_url: str, told: Sequence[Told], asked: Sequence[Scope]
) -> None:
    # The examples share a database: each has ids of its own.
    asyncio.run(_check(database_url, told, asked, uuid4()))


async def _check(url: str, told: Sequence[Told], asked: Sequence[Scope], space: UUID) -> None:
    async with served(url) as memory:
        ids = {}
        for item in told:
            turn = turn_of(memory, space, item.scope)
            ids[item] = (await turn.remember(f"{item.word} told in {item.scope}")).fact.id
            await turn.add("USER", f"{item.word} noted in {item.scope}")
        for scope in {*asked, *(item.scope for item in told)}:
            turn = turn_of(memory, space, scope)
            own = {item.word for item in told if item.scope == scope}
            assert set(await turn.texts(" ".join(_WORDS), 50)) == {f"{w} told in {scope}" for w in own}
            assert set(await turn.notes("USER")) == {f"{w} noted in {scope}" for w in own}
            for item, fact_id in ids.items():
                if item.scope != scope:
                    try:
                        await turn.forget(fact_id)
                    except NotFound:
                        continue
                    raise AssertionError(f"{scope} forgot what was told in {item.scope}")
