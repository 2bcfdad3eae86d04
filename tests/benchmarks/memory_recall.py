"""Recall over 100,000 facts of one scope, through gRPC: `python -m tests.benchmarks.memory_recall`.

Loads the facts by SQL, as telling them would have (words drawn by Zipf's law, so that some are in nearly
every fact), asks questions of each kind, and prints the medians.  Exits non-zero beyond the target.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections import Counter

import asyncpg

from herma.common.ids import UuidV7Factory
from herma.common.postgres.migrations import migrate
from herma.memory.app import SCHEMA
from herma.memory.domain.fact import NewFact
from herma.memory.domain.scope import scope_of
from tests.component.memory.service import Turn, new_identity, served
from tests.component.session_authority.server import SERVICE_PASSWORD, Server
from tests.support.embedded import running_postgres

TARGET_MS = 25.0
_VOCABULARY = 30_000
_CJK = "東京大阪京都北海道沖縄富士山神社桜花猫犬私彼女家族仕事旅行料理音楽映画学校電車空港銀行病院図書館"


def told(count: int) -> list[str]:
    """So many facts; every tenth is Japanese."""
    rng = random.Random(7)
    words = [f"word{n}" for n in range(_VOCABULARY)]
    weights = [1 / (n + 1) for n in range(_VOCABULARY)]
    drawn = iter(rng.choices(words, weights, k=count * 16))
    texts = []
    for number in range(count):
        if number % 10:
            texts.append(f"fact{number} " + " ".join(next(drawn) for _ in range(rng.randint(6, 15))))
        else:
            texts.append(f"{number} " + "".join(rng.choices(_CJK, k=18)))
    return texts


async def load(admin_url: str, identity, texts: list[str]) -> None:
    """Stores the facts of one scope."""
    scope, new_id = scope_of(identity), UuidV7Factory()
    mine = (scope.tenant_id, scope.profile_id, scope.principal_id)
    facts = [NewFact(text) for text in texts]
    counts: Counter[str] = Counter({"": len(facts)})
    rows = []
    for fact in facts:
        terms = fact.terms
        counts.update(terms)
        told_in = (0.5, identity.turn_id, fact.digest)
        rows.append((*mine, new_id(), fact.text, "fact", [], *told_in, scope.keys_of(terms)))
    connection = await asyncpg.connect(admin_url)
    names = "tenant_id profile_id principal_id id text category entities trust source_turn_id digest keys"
    await connection.copy_records_to_table(
        "facts", schema_name="memory", records=rows, columns=names.split()
    )
    await connection.copy_records_to_table(
        "terms",
        schema_name="memory",
        records=[(*mine, term, count) for term, count in counts.items()],
        columns=["tenant_id", "profile_id", "principal_id", "term", "facts"],
    )
    await connection.execute("ANALYZE memory.facts; ANALYZE memory.terms")
    await connection.close()


def questions() -> dict[str, list[str]]:
    """Questions by kind."""
    rng = random.Random(11)
    kinds: dict[str, list[str]] = {"one rare word": [f"what about fact{n}?" for n in range(1, 400, 7)]}
    kinds["a sentence"] = [
        "tell me " + " ".join(f"word{int(rng.paretovariate(0.6)) % _VOCABULARY}" for _ in range(12))
        for _ in range(60)
    ]
    kinds["only common words"] = ["word0 word1 word2 word3", "word0", "word1 word5 word9"] * 15
    kinds["a page"] = [
        " ".join(f"word{rng.randrange(_VOCABULARY)}" for _ in range(1_400)) for _ in range(40)
    ]
    kinds["Japanese"] = ["".join(rng.choices(_CJK, k=8)) + "はどこですか" for _ in range(60)]
    return kinds


async def measure(turn: Turn) -> dict[str, list[float]]:
    """Seconds of each question, by kind."""
    taken: dict[str, list[float]] = {}
    for kind, asked in questions().items():
        for query in asked[:5]:
            await turn.recall(query, 8)
        found = 0
        for query in asked:
            began = time.perf_counter()
            found += len(await turn.recall(query, 8))
            taken.setdefault(kind, []).append(time.perf_counter() - began)
        assert found, f"{kind} recalled nothing"
    return taken


async def run(server: Server, count: int) -> bool:
    """Prints the table; whether every median is within the target."""
    await server.create("recall")
    await migrate(server.admin_url("recall"), SCHEMA, SERVICE_PASSWORD)
    identity = new_identity()
    await load(server.admin_url("recall"), identity, told(count))
    async with served(server.service_url("recall", "memory")) as memory:
        taken = await measure(memory.turn(identity))
    taken["all"] = [seconds for kind in taken.values() for seconds in kind]
    print(f"recall over {count} facts, target p50 {TARGET_MS:g} ms")
    for kind, seconds in taken.items():
        p95 = statistics.quantiles(seconds, n=20)[-1] * 1000
        print(f"  {kind:20} p50 {statistics.median(seconds) * 1000:6.1f} ms   p95 {p95:6.1f} ms")
    return all(statistics.median(seconds) * 1000 <= TARGET_MS for seconds in taken.values())


def main() -> None:
    """Measures on a server of its own."""
    parser = argparse.ArgumentParser(description="Recall over many facts.")
    parser.add_argument("--facts", type=int, default=100_000)
    arguments = parser.parse_args()
    with running_postgres() as url:
        sys.exit(0 if asyncio.run(run(Server(url), arguments.facts)) else 1)


if __name__ == "__main__":
    main()
