"""Which facts fit a question, in which order, and why.

Two steps, so that the cost is bounded however many facts there are: indexes propose at most
`MAX_CANDIDATES` by the rarest words of the question, and these are ranked by all of them.

The score is a sum of three parts, each explained with the answer: the words in common weighed by their
rarity in the scope (as in BM25: saturating, and discounted for long texts), trust, and recency.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from herma.common.errors import InvalidArgument
from herma.memory.domain.fact import Fact

MAX_QUERY = 16_384
MAX_RESULTS = 50
MAX_CANDIDATES = 500
# A word of more facts than this proposes none of them while there is a rarer one.
MAX_POSTINGS = 1_000
# Of a question; the rarest are kept.
MAX_QUERY_TERMS = 64

_TEXT, _TRUST, _RECENCY = 0.7, 0.2, 0.1
_STOP_WEIGHT = 0.05
_SATURATION = 2.0
_USUAL_SIZE = 24
# Days after which half of the recency is gone.
_HALF_LIFE = 90.0
# What has less than this share of the best one's text score was found by an incidental word.
_CUT = 0.3


@dataclass(frozen=True, slots=True)
class Weights:
    """A question's terms that some fact has, with what each says; rarest first."""

    proposing: Sequence[str]
    # By term, also those that are too common to propose.
    weight: Mapping[str, float]
    # Even the rarest is common: only the newest facts are looked at.
    is_common: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed fact: its terms in common with the question, how many it has in all, its age in days."""

    id: UUID
    matched: Sequence[str]
    size: int
    trust: float
    age: float


@dataclass(frozen=True, slots=True)
class Score:
    """The parts of a score, as they are added."""

    text: float
    trust: float
    recency: float

    @property
    def total(self) -> float:
        """Their sum."""
        return self.text + self.trust + self.recency


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score; `matched` is without stop words, rarest first."""

    id: UUID
    score: Score
    matched: Sequence[str]


@dataclass(frozen=True, slots=True)
class Recalled:
    """A fact that fits, and why."""

    fact: Fact
    score: Score
    matched: Sequence[str]


def check_query(query: str, max_facts: int) -> None:
    """Refuses a question that is too large.

    Raises:
        InvalidArgument: naming what is wrong.
    """
    if len(query) > MAX_QUERY:
        raise InvalidArgument(
            "the query is too long", fields={"query": f"at most {MAX_QUERY} characters"}
        )
    if not 0 <= max_facts <= MAX_RESULTS:
        raise InvalidArgument("too many facts", fields={"max_facts": f"from 0 to {MAX_RESULTS}"})


def weigh(
    terms: Iterable[str], frequency: Mapping[str, int], facts: int, stop: frozenset[str]
) -> Weights:
    """Weighs the terms of a question by their rarity among the scope's facts.

    Args:
        terms: Of the question.
        frequency: In how many facts each is; those in none may be missing.
        facts: How many there are.
        stop: Terms that say nothing: they propose no fact.
    """
    known = sorted((term for term in terms if frequency.get(term)), key=lambda t: (frequency[t], t))
    telling = [term for term in known if term not in stop][:MAX_QUERY_TERMS]
    weight = {term: math.log1p(facts / frequency[term]) for term in telling}
    for term in known:
        if term in stop and len(weight) < 2 * MAX_QUERY_TERMS:
            weight[term] = _STOP_WEIGHT * math.log1p(facts / frequency[term])
    proposing: list[str] = []
    budget = MAX_CANDIDATES
    for term in telling:
        if proposing and (frequency[term] > budget):
            break
        proposing.append(term)
        budget -= frequency[term]
    is_common = bool(proposing) and frequency[proposing[0]] > MAX_POSTINGS
    return Weights(telling if is_common else proposing, weight, is_common)


def rank(
    candidates: Iterable[Candidate],
    weights: Weights,
    stop: frozenset[str],
    at_most: int,
) -> list[Ranked]:
    """The best candidates, best first; those that only have stop words in common are left out."""
    ranked = []
    for candidate in candidates:
        telling = [term for term in candidate.matched if term not in stop]
        if telling:
            telling.sort(key=lambda term: (-weights.weight.get(term, 0.0), term))
            ranked.append(Ranked(candidate.id, _score(candidate, weights), telling))
    ranked.sort(key=lambda item: (-item.score.total, -item.id.int))
    best = max((item.score.text for item in ranked), default=0.0)
    return [item for item in ranked if item.score.text >= _CUT * best][:at_most]


def _score(candidate: Candidate, weights: Weights) -> Score:
    raw = sum(weights.weight.get(term, 0.0) for term in candidate.matched)
    raw /= 0.75 + 0.25 * max(candidate.size, 1) / _USUAL_SIZE
    return Score(
        text=_TEXT * raw / (raw + _SATURATION),
        trust=_TRUST * candidate.trust,
        recency=_RECENCY * 0.5 ** (max(0.0, candidate.age) / _HALF_LIFE),
    )
