"""The first step of recall: what the index proposes.

The cost is bounded: at most `MAX_CANDIDATES` facts are read, of each only what ranking needs.
"""

from __future__ import annotations

from datetime import timedelta

from herma.common.postgres import Connection
from herma.memory.domain.ranking import MAX_CANDIDATES, MAX_POSTINGS, Candidate, Weights
from herma.memory.domain.scope import Scope

_PROPOSED = "SELECT memory.propose_facts($2, $3, $5, $6)"
# Without a rare word: of the newest facts, those that have one of the words.
_NEWEST = """
    SELECT n.id FROM (SELECT id, keys, valid_from, valid_to FROM memory.facts
                      WHERE tenant_id = $1 AND profile_id = $2 AND principal_id = $3
                      ORDER BY id DESC LIMIT $7) n
    WHERE n.keys && $5 AND (n.valid_from IS NULL OR n.valid_from <= now())
      AND (n.valid_to IS NULL OR n.valid_to > now())
    ORDER BY n.id DESC LIMIT $6
"""
# The terms are joined, not compared with `= ANY`: that would be linear under a generic plan.
_CANDIDATES = """
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
"""


async def propose(connection: Connection, scope: Scope, weights: Weights) -> list[Candidate]:
    """The candidates of a question, each with the terms that it has in common with it."""
    terms = list(weights.weight)
    rows = await connection.fetch(
        _CANDIDATES.format(source=_NEWEST if weights.is_common else _PROPOSED),
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
            id=row["id"],
            matched=[terms[number - 1] for number in row["numbers"]],
            size=row["size"],
            trust=row["trust"],
            age=row["age"] / timedelta(days=1),
        )
        for row in rows
    ]
