"""Recall over many facts of one scope, through gRPC.

The facts are loaded by SQL, as telling them would have: words drawn by Zipf's law, so that some are in
nearly every fact.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import Counter
from contextlib import ExitStack

import asyncpg

from herma.common.ids import UuidV7Factory
from herma.common.postgres.migrations import migrate
from herma.memory.app import SCHEMA
from herma.memory.domain.fact import NewFact
from herma.memory.domain.scope import scope_of
from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Result
from tests.benchmarks.samples import Samples
from tests.benchmarks.target import Target
from tests.component.memory.service import Turn, new_identity, served
from tests.component.session_authority.server import SERVICE_PASSWORD, Server
from tests.support.embedded import running_postgres

FACTS = 100_000
_TARGET = Target("p50", 25, "ms")
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


async def ask(turn: Turn) -> dict[str, list[float]]:
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


async def measure(bench: Bench) -> list[Result]:
    """All kinds of questions together, and the most expensive kind alone."""
    with ExitStack() as stack:
        # It waits for the server by a loop of its own.
        url = await asyncio.to_thread(stack.enter_context, running_postgres())
        taken = await _asked_of(Server(url), FACTS)
    together = [seconds for kind in taken.values() for seconds in kind]
    dearest = max(taken, key=lambda kind: statistics.median(taken[kind]))
    note = (
        "memory's `Recall` over gRPC, from the call to its eight facts, on a PostgreSQL of its own"
        " without fsync (it only reads). A tenth of the facts is Japanese; the questions have one rare"
        " word, a sentence, common words alone, a page of 1,400 words, or Japanese."
    )
    return [
        Result(f"Recall over {FACTS:,} facts", "ms", _milliseconds(together), (_TARGET,), (), note),
        Result(
            f"Recall over {FACTS:,} facts, the dearest kind of question ({dearest})",
            "ms",
            _milliseconds(taken[dearest]),
            (_TARGET,),
            (),
            "as above.",
        ),
    ]


async def _asked_of(server: Server, count: int) -> dict[str, list[float]]:
    await server.create("recall")
    await migrate(server.admin_url("recall"), SCHEMA, SERVICE_PASSWORD)
    identity = new_identity()
    await load(server.admin_url("recall"), identity, told(count))
    async with served(server.service_url("recall", "memory")) as memory:
        return await ask(memory.turn(identity))


def _milliseconds(seconds: list[float]) -> Samples:
    return Samples.of([value * 1000 for value in seconds])
