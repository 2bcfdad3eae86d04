"""Facts: found whatever the language, never by words that say nothing, told once however often."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from tests.component.memory.service import Memory, new_identity

from herma.common.errors import (
    IdempotencyConflict,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unauthenticated,
)

_TOLD = {
    "accents": ("Lieblingscafé: Café Zürich, très naïve", "where is that cafe? so naive"),
    "chinese": ("小明住在北京大学附近的公寓里", "北京的天气怎么样?"),
    "japanese": ("彼は東京タワーの近くに住んでいる", "東京タワーはどこですか"),
    "one character": ("私の猫の名前はミケです", "猫"),
    "half width": ("カメラを買った", "ｶﾒﾗ"),
    "korean": ("저는 서울에서 일합니다", "서울은 어때요?"),
    "cyrillic": ("Мою собаку зовут Рекс", "как зовут собаку"),
    "stroke letters": ("Søren wohnt in Łódź", "soren lodz"),
    "thai": ("ฉันอาศัยอยู่ที่กรุงเทพมหานคร", "กรุงเทพ"),
}


@pytest.mark.parametrize("name", _TOLD)
async def test_a_fact_is_found_in_its_language(memory: Memory, name: str) -> None:
    turn = memory.turn()
    text, question = _TOLD[name]
    for other, (told, _) in _TOLD.items():
        if other != name:
            await turn.remember(told)
    await turn.remember(text)
    assert (await turn.texts(question))[:1] == [text]


async def test_the_score_is_explained_and_rare_words_count_more(memory: Memory) -> None:
    turn = memory.turn()
    for number in range(30):
        await turn.remember(f"The project meeting number {number} was moved")
    await turn.remember("The project password hint is a zebra")
    best, *rest = await turn.recall("which project has a zebra?")
    assert best.fact.text == "The project password hint is a zebra"
    assert best.matched[0] == "zebra"
    for found in (best, *rest):
        assert found.score == pytest.approx(found.text_score + found.trust_score + found.recency_score)
    assert all(best.text_score > found.text_score for found in rest)


async def test_trust_and_recency_decide_between_equals(memory: Memory) -> None:
    turn = memory.turn()
    await turn.remember("The deploy window is Monday", trust=0.1)
    await turn.remember("The deploy window is Friday", trust=0.9)
    first, second = await turn.recall("deploy window")
    assert first.fact.text.endswith("Friday")
    assert first.trust_score > second.trust_score


async def test_words_that_say_nothing_recall_nothing(memory: Memory) -> None:
    turn = memory.turn()
    await turn.remember("My dog is called Rex and I like what he does")
    for query in ("what is it and who are you", "", "   ", "?!&|:*()'\\", "你是什么", "🙂"):
        assert await turn.texts(query) == [], query
    assert await turn.texts("what is my dog called")


async def test_any_text_is_a_question(memory: Memory) -> None:
    turn = memory.turn()
    await turn.remember("The zebra lives in the green house")
    for query in ("zebra\0house", "zebra & (house | !x):* <->", "'zebra", "x " * 8_000 + "zebra"):
        assert await turn.texts(query) == ["The zebra lives in the green house"], query[:20]
    with pytest.raises(InvalidArgument):
        await turn.recall("zebra " * 20_000)
    with pytest.raises(InvalidArgument):
        await turn.recall("zebra", 51)


async def test_a_fact_holds_between_its_times(memory: Memory) -> None:
    turn = memory.turn()
    now = datetime.now(UTC)
    await turn.remember("holiday alpha", valid_to=_stamp(now - timedelta(days=1)))
    await turn.remember("holiday beta", valid_from=_stamp(now + timedelta(days=1)))
    await turn.remember("holiday gamma", valid_to=_stamp(now + timedelta(days=1)))
    assert await turn.texts("holiday") == ["holiday gamma"]
    with pytest.raises(InvalidArgument):
        await turn.remember("holiday", valid_from=_stamp(now), valid_to=_stamp(now))


async def test_the_same_call_is_one_fact(memory: Memory) -> None:
    turn, call = memory.turn(), str(uuid4())
    answers = await asyncio.gather(*(turn.remember("Rex is a dog", call) for _ in range(8)))
    assert len({answer.fact.id for answer in answers}) == 1
    assert all(answer.created for answer in answers)
    later = await turn.remember("  rex IS a   dog ")
    assert (later.created, later.fact.id) == (False, answers[0].fact.id)
    with pytest.raises(IdempotencyConflict):
        await turn.remember("Rex is a cat", call)
    with pytest.raises(IdempotencyConflict):
        await memory.turn(turn.identity, principal_id=uuid4()).remember("Rex is a dog", call)
    assert await turn.texts("dog") == ["Rex is a dog"]


async def test_what_is_forgotten_leaves_no_copy(memory: Memory) -> None:
    turn, call = memory.turn(), str(uuid4())
    told = str(uuid4())
    fact = (await turn.remember("The unicorn sleeps at noon", told)).fact
    with pytest.raises(NotFound):
        await memory.turn().forget(fact.id)
    with pytest.raises(NotFound):
        await memory.turn(turn.identity, principal_id=uuid4()).forget(fact.id)
    await turn.forget(fact.id, call)
    await turn.forget(fact.id, call)
    assert await turn.texts("unicorn") == []
    with pytest.raises(NotFound):
        await turn.forget(fact.id)
    # The first call again gets its first answer, and brings nothing back.
    assert (await turn.remember("The unicorn sleeps at noon", told)).fact.id == fact.id
    assert await turn.texts("unicorn") == []
    async with memory.database.transaction(turn.identity.tenant_id) as connection:
        for table in ("facts", "terms", "calls"):
            rows = await connection.fetch(f"SELECT t::text FROM memory.{table} t")
            assert not [row for row in rows if "unicorn" in row[0]], table


async def test_concurrent_writers_are_counted_right(memory: Memory) -> None:
    turn = memory.turn()
    told = await asyncio.gather(
        *(turn.remember(f"shared word{n % 3} unique{n} {'a b c'[n % 5 :]}") for n in range(40))
    )
    await asyncio.gather(*(turn.forget(answer.fact.id) for answer in told[::2]))
    async with memory.database.transaction(turn.identity.tenant_id) as connection:
        counted = await connection.fetch("SELECT term, facts FROM memory.terms WHERE term <> ''")
        real = await connection.fetch(
            "SELECT split_part(k, ':', 2) AS term, count(*) AS facts"
            " FROM memory.facts, unnest(keys) k GROUP BY 1"
        )
        facts = await connection.fetchval("SELECT facts FROM memory.terms WHERE term = ''")
    assert {tuple(row) for row in counted} == {tuple(row) for row in real}
    assert facts == 20


async def test_a_fact_that_cannot_be_is_refused_whole(memory: Memory) -> None:
    turn = memory.turn()
    for text, fields in (
        ("", {}),
        ("  ", {}),
        ("…!", {}),
        ("nul\0byte", {}),
        ("x" * 1001, {}),
        ("fine", {"category": "secret"}),
        ("fine", {"entities": ["e"] * 17}),
        ("fine", {"trust": 1.5}),
        ("fine", {"trust": float("nan")}),
        ("fine", {"valid_to": Timestamp(seconds=-(10**15))}),
    ):
        with pytest.raises(InvalidArgument):
            await turn.remember(text, **fields)
    with pytest.raises(InvalidArgument):
        await turn.remember("fine", call_id="not an id")
    assert await turn.texts("fine") == []


async def test_an_untrusted_turn_reads_and_writes_nothing(memory: Memory) -> None:
    trusted = memory.turn()
    fact = (await trusted.remember("Rex is a dog")).fact
    await trusted.add("USER", "likes dogs")
    for trust in ("untrusted", "", "anything"):
        turn = memory.turn(trusted.identity, trust=trust)
        assert await turn.texts("dog Rex") == []
        assert not (await turn.call("Recall", _with_notes())).notes
        for refused in (
            turn.remember("Rex is a cat"),
            turn.forget(fact.id),
            turn.add("USER", "x"),
            turn.notes("USER"),
        ):
            with pytest.raises(PermissionDenied):
                await refused
    assert await trusted.texts("Rex") == ["Rex is a dog"]


async def test_without_a_token_there_is_no_scope(memory: Memory) -> None:
    turn = memory.turn(new_identity(), expires_at=1)
    with pytest.raises(Unauthenticated):
        await turn.recall("dog")


def _stamp(at: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(at)
    return stamp


def _with_notes():
    from herma.api.memory.v1 import memory_pb2

    return memory_pb2.RecallRequest(query="dog", max_facts=5, with_notes=True)
