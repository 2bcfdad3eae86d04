"""Facts: told, recalled, forgotten.

Recall looks up how rare each word of the question is (one indexed read), lets the index propose, reads of
the candidates only what ranking needs, and the texts of the few that are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from herma.common.errors import InvalidArgument, NotFound, ResourceExhausted
from herma.common.postgres import Connection, Database
from herma.common.turn_token import TurnIdentity
from herma.memory.domain.fact import MAX_FACTS, Fact, NewFact, check_fact
from herma.memory.domain.note import Note
from herma.memory.domain.ranking import (
    MAX_CANDIDATES,
    MAX_POSTINGS,
    Candidate,
    Recalled,
    Weights,
    check_query,
    rank,
    weigh,
)
from herma.memory.domain.scope import Scope, is_trusted, scope_of, trusted_scope_of
from herma.memory.domain.words import query_terms
from herma.memory.store.calls import begin_call, call_digest, end_call
from herma.memory.store.notes import read_notes

_COLUMNS = "id, text, category, entities, trust, source_turn_id, created_at, valid_from, valid_to"

_PROPOSED = "SELECT memory.propose_facts($2, $3, $5, $6)"
_NEWEST = """
    SELECT n.id FROM (SELECT id, keys, valid_from, valid_to FROM memory.facts
                      WHERE tenant_id = $1 AND profile_id = $2 AND principal_id = $3
                      ORDER BY id DESC LIMIT $7) n
    WHERE n.keys && $5 AND (n.valid_from IS NULL OR n.valid_from <= now())
      AND (n.valid_to IS NULL OR n.valid_to > now())
    ORDER BY n.id DESC LIMIT $6
"""


class FactStore:
    """Facts of any scope; the identity says which.

    Args:
        stop: Terms that say nothing by themselves.
    """

    def __init__(self, database: Database, new_id: Callable[[], UUID], stop: frozenset[str]) -> None:
        self._database = database
        self._new_id = new_id
        self._stop = stop

    async def recall(
        self, identity: TurnIdentity, query: str, at_most: int, *, with_notes: bool = False
    ) -> tuple[list[Recalled], list[Note]]:
        """The facts that fit a question, best first, and if wanted both notes; none if untrusted.

        Raises:
            InvalidArgument: for a question that is too large.
        """
        check_query(query, at_most)
        scope = scope_of(identity)
        if not is_trusted(identity):
            return [], []
        terms = query_terms(query) if at_most else []
        async with self._database.transaction(scope.tenant_id) as connection:
            notes = await read_notes(connection, scope) if with_notes else []
            weights = await self._weigh(connection, scope, terms)
            if not weights.proposing:
                return [], notes
            candidates = await _candidates(connection, scope, weights)
            best = rank(candidates, weights, self._stop, at_most)
            facts = await _read(connection, scope, [item.id for item in best])
        return [Recalled(facts[i.id], i.score, i.matched) for i in best if i.id in facts], notes

    async def remember(self, identity: TurnIdentity, call_id: UUID, fact: NewFact) -> tuple[Fact, bool]:
        """Stores a fact; whether it is new.  What was known is told how long it holds now.

        Raises:
            InvalidArgument: naming what is wrong.
            ResourceExhausted: when the scope is full.
            PermissionDenied: for an untrusted turn.
            IdempotencyConflict: when another request was made under the call id.
        """
        scope = trusted_scope_of(identity)
        check_fact(fact)
        fact = replace(fact, text=fact.text.strip())
        digest = call_digest(identity, "remember", fact)
        try:
            async with self._database.transaction(scope.tenant_id) as connection:
                answered = await begin_call(connection, scope.tenant_id, call_id, digest)
                if answered is not None:
                    known = _answered(fact, identity.turn_id, answered)
                    return known, bool(answered["created"])
                stored, created = await self._store(connection, scope, fact, identity.turn_id)
                await end_call(connection, scope.tenant_id, call_id, _answer(stored, created))
        except asyncpg.DataError as error:
            raise InvalidArgument("the fact holds what cannot be stored") from error
        return stored, created

    async def forget(self, identity: TurnIdentity, call_id: UUID, fact_id: UUID) -> None:
        """Deletes a fact for good: no copy of it stays here.

        Raises:
            NotFound: when the scope has none of this id.
            PermissionDenied: for an untrusted turn.
            IdempotencyConflict: when another request was made under the call id.
        """
        scope = trusted_scope_of(identity)
        digest = call_digest(identity, "forget", str(fact_id))
        async with self._database.transaction(scope.tenant_id) as connection:
            if await begin_call(connection, scope.tenant_id, call_id, digest) is not None:
                return
            keys = await connection.fetchval(
                """
                DELETE FROM memory.facts
                WHERE tenant_id = $1 AND profile_id = $2 AND principal_id = $3 AND id = $4
                RETURNING keys
                """,
                scope.tenant_id,
                scope.profile_id,
                scope.principal_id,
                fact_id,
            )
            if keys is None:
                raise NotFound("there is no such fact", reason="FACT_NOT_FOUND")
            await _count(connection, scope, list(map(_term_of, keys)), -1)
            await end_call(connection, scope.tenant_id, call_id, {})

    async def _weigh(self, connection: Connection, scope: Scope, terms: Sequence[str]) -> Weights:
        if not terms:
            return Weights((), {}, False)
        rows = await connection.fetch(
            """
            SELECT term, facts FROM memory.terms
            WHERE tenant_id = $1 AND profile_id = $2 AND principal_id = $3 AND term = ANY($4)
            """,
            scope.tenant_id,
            scope.profile_id,
            scope.principal_id,
            ["", *terms],
        )
        frequency = {row["term"]: row["facts"] for row in rows}
        return weigh(terms, frequency, frequency.pop("", 0), self._stop)

    async def _store(
        self, connection: Connection, scope: Scope, fact: NewFact, turn_id: UUID
    ) -> tuple[Fact, bool]:
        terms = fact.terms
        row = await connection.fetchrow(
            f"""
            INSERT INTO memory.facts (tenant_id, profile_id, principal_id, id, text, category, entities,
                                      trust, source_turn_id, valid_from, valid_to, digest, keys)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
            ON CONFLICT (tenant_id, profile_id, principal_id, digest)
            DO UPDATE SET valid_from = excluded.valid_from, valid_to = excluded.valid_to
            RETURNING {_COLUMNS}
            """,  # noqa: S608  # columns are a constant
            scope.tenant_id,
            scope.profile_id,
            scope.principal_id,
            new_id := self._new_id(),
            fact.text,
            fact.category,
            list(fact.entities),
            fact.trust,
            turn_id,
            fact.valid_from,
            fact.valid_to,
            fact.digest,
            scope.keys_of(terms),
        )
        assert row is not None
        created = row["id"] == new_id
        if created and await _count(connection, scope, terms, 1) > MAX_FACTS:
            raise ResourceExhausted(
                f"memory is full: {MAX_FACTS} facts. Forget some first.", reason="MEMORY_FULL"
            )
        return _fact_of(row), created


async def _candidates(connection: Connection, scope: Scope, weights: Weights) -> list[Candidate]:
    """What the index proposes, with the numbers (from 1) of the terms that each has.

    The terms are joined, not compared with `= ANY`: that would be linear under a generic plan.
    """
    # Without a rare word: of the newest facts, those that have one of the words.
    source = _NEWEST if weights.is_common else _PROPOSED
    terms = list(weights.weight)
    rows = await connection.fetch(
        f"""
        WITH candidates AS MATERIALIZED (
            SELECT f.id, f.trust, f.created_at, f.keys FROM memory.facts f
            WHERE f.tenant_id = $1 AND f.profile_id = $2 AND f.principal_id = $3
              AND f.id = ANY(ARRAY({source}))
        )
        SELECT c.id, c.trust, now() - c.created_at AS age, cardinality(c.keys) AS size, m.numbers
        FROM candidates c
        JOIN (SELECT k.id, array_agg(w.number) AS numbers
              FROM (SELECT id, unnest(keys) AS key FROM candidates) k
              JOIN unnest($4::text[]) WITH ORDINALITY w(key, number) ON w.key = k.key
              GROUP BY k.id) m ON m.id = c.id
        """,  # noqa: S608  # a constant
        scope.tenant_id,
        scope.profile_id,
        scope.principal_id,
        scope.keys_of(terms),
        scope.keys_of(weights.proposing),
        MAX_CANDIDATES,
        *((MAX_POSTINGS,) if weights.is_common else ()),
    )
    return [
        Candidate(
            row["id"],
            [terms[number - 1] for number in row["numbers"]],
            row["size"],
            row["trust"],
            row["age"] / timedelta(days=1),
        )
        for row in rows
    ]


async def _read(connection: Connection, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, Fact]:
    rows = await connection.fetch(
        f"SELECT {_COLUMNS} FROM memory.facts WHERE tenant_id = $1 AND id = ANY($2::uuid[])",  # noqa: S608
        scope.tenant_id,
        ids,
    )
    return {row["id"]: _fact_of(row) for row in rows}


async def _count(connection: Connection, scope: Scope, terms: Sequence[str], by: int) -> int:
    """Counts a fact in or out; how many the scope has now.

    In the order of the terms, so that two writers never wait for each other; the count of facts is the
    first, so writers of one scope queue there.
    """
    rows = await connection.fetch(
        """
        INSERT INTO memory.terms AS t (tenant_id, profile_id, principal_id, term, facts)
        SELECT $1, $2, $3, term, greatest($5, 0)
        FROM unnest($4::text[]) term ORDER BY term COLLATE "C"
        ON CONFLICT (tenant_id, profile_id, principal_id, term)
        DO UPDATE SET facts = greatest(t.facts + $5, 0)
        RETURNING term, facts
        """,
        scope.tenant_id,
        scope.profile_id,
        scope.principal_id,
        ["", *terms],
        by,
    )
    if by < 0:
        await connection.execute(
            """
            DELETE FROM memory.terms
            WHERE tenant_id = $1 AND profile_id = $2 AND principal_id = $3 AND term = ANY($4)
              AND facts = 0
            """,
            scope.tenant_id,
            scope.profile_id,
            scope.principal_id,
            [row["term"] for row in rows if row["facts"] == 0],
        )
    return next(int(row["facts"]) for row in rows if row["term"] == "")


def _term_of(key: str) -> str:
    return key.partition(":")[2]


def _fact_of(row: asyncpg.Record) -> Fact:
    return Fact(**{name: row[name] for name in _COLUMNS.split(", ")})


def _answer(fact: Fact, created: bool) -> dict[str, Any]:
    """What a repeat needs beyond its own words: a fact that is forgotten since leaves no copy."""
    return {
        "id": str(fact.id),
        "created": created,
        "created_at": fact.created_at.isoformat(),
        "trust": fact.trust,
        "category": fact.category,
    }


def _answered(told: NewFact, turn_id: UUID, answer: dict[str, Any]) -> Fact:
    return Fact(
        id=UUID(answer["id"]),
        text=told.text,
        category=answer["category"],
        entities=told.entities,
        trust=answer["trust"],
        source_turn_id=turn_id,
        created_at=datetime.fromisoformat(answer["created_at"]),
        valid_from=told.valid_from,
        valid_to=told.valid_to,
    )
