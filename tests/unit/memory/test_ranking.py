"""Ranking: rare words propose, the number of candidates is bounded, common ones do not dominate."""

from __future__ import annotations

from uuid import UUID

from herma.memory.domain.ranking import (
    MAX_POSTINGS,
    MAX_QUERY_TERMS,
    Candidate,
    rank,
    weigh,
)

STOP = frozenset({"the", "is"})


def candidate(
    number: int, *matched: str, trust: float = 0.5, days: float = 0, size: int = 10
) -> Candidate:
    return Candidate(UUID(int=number), matched, size, trust, days)


def test_the_rarest_words_propose_within_the_bound() -> None:
    weights = weigh(["a", "b", "c", "the"], {"a": 300, "b": 3, "c": 300, "the": 9_000}, 10_000, STOP)
    assert list(weights.proposing) == ["b", "a"]
    assert set(weights.weight) == {"a", "b", "c", "the"}
    assert not weights.is_common


def test_words_that_no_fact_has_and_stop_words_propose_nothing() -> None:
    assert weigh(["the", "is", "unknown"], {"the": 5, "is": 5}, 10, STOP).proposing == []


def test_only_common_words_look_at_the_newest() -> None:
    assert weigh(["a"], {"a": MAX_POSTINGS + 1}, 100_000, STOP).is_common
    assert not weigh(["a"], {"a": MAX_POSTINGS}, 100_000, STOP).is_common


def test_a_long_question_is_bounded() -> None:
    terms = [f"w{n}" for n in range(900)]
    weights = weigh(terms, dict.fromkeys(terms, 1), 1_000, STOP)
    assert len(weights.proposing) == len(weights.weight) == MAX_QUERY_TERMS


def test_a_rare_word_beats_many_common_ones() -> None:
    weights = weigh(["zebra", "x", "y"], {"zebra": 1, "x": 400, "y": 400}, 500, STOP)
    best, *_ = rank([candidate(1, "x", "y"), candidate(2, "zebra")], weights, STOP, 5)
    assert best.id == UUID(int=2)


def test_trust_and_age_order_equals_and_ids_the_rest() -> None:
    weights = weigh(["a"], {"a": 4}, 100, STOP)
    facts = [
        candidate(1, "a", days=400),
        candidate(2, "a", trust=0.9),
        candidate(3, "a"),
        candidate(4, "a"),
    ]
    order = [item.id.int for item in rank(facts, weights, STOP, 10)]
    assert order == [2, 4, 3, 1]
    assert order == [item.id.int for item in rank(facts[::-1], weights, STOP, 10)]


def test_what_has_only_stop_words_in_common_is_left_out() -> None:
    weights = weigh(["a", "the"], {"a": 1, "the": 2}, 3, STOP)
    found = rank([candidate(1, "the"), candidate(2, "a", "the")], weights, STOP, 5)
    assert [(item.id.int, item.matched) for item in found] == [(2, ["a"])]
