"""What a turn without tools costs: remote calls and commits that wait for the disk, counted.

Calls are counted by the servers themselves (the metric `rpc.server.call.duration` has one sample for
each), commits by PostgreSQL's own log of every statement.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.support.model_server import ScriptedModelServer, text
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.platform import TestPlatform

TURNS = 6
MAX_CALLS = 5
MAX_COMMITS = 4
# How many runners the platform has: each always has one claim open.
RUNNERS = 1

# What is open all the time, or asked by whoever watches, belongs to no turn.
_OF_NO_TURN = {
    "herma.api.broker.v1.BrokerService/ListSandboxes",
    "herma.api.lease.v1.LeaseService/WatchSignals",
    "herma.api.lease.v1.LeaseService/PublishDeltas",
    "herma.api.identity.v1.IdentityService/Bootstrap",
    "herma.api.identity.v1.IdentityService/Authenticate",
    "herma.api.session.v1.SessionService/CreateSession",
    "herma.api.session.v1.SessionService/ListSessions",
    "herma.api.session.v1.SessionService/GetSession",
    "herma.api.session.v1.SessionService/GetTurn",
    "herma.api.session.v1.SessionService/ListMessages",
    "herma.api.session.v1.SessionService/Subscribe",
}
_CLAIM = "herma.api.lease.v1.LeaseService/Claim"
_RENEW = "herma.api.lease.v1.LeaseService/Renew"


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def platform(model: ScriptedModelServer, collector: OtlpReceiver) -> Iterator[TestPlatform]:
    model.on("COST", text("It costs little."))
    found = TestPlatform(
        "local",
        {
            "HERMA_MODEL_BASE_URL": model.base_url,
            "HERMA_MODEL": "scripted",
            "HERMA_MODEL_API_KEY": model.api_key,
            "HERMA_OTLP_ENDPOINT": collector.endpoint,
        },
    )
    try:
        found.up()
        yield found
    finally:
        found.close()


async def test_a_turn_without_tools_commits_four_times(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        log = StatementLog(platform)
        await client.answer(session, "COST of the first turn")
        log.begin()
        for number in range(TURNS):
            await client.answer(session, f"COST of turn {number}")
        commits = log.read()
    assert commits.outside == []
    # Admission, model call and answer are one each at the least, so the log was read.
    assert TURNS * 3 <= commits.durable <= TURNS * MAX_COMMITS, commits


async def test_a_turn_without_tools_makes_five_calls(
    platform: TestPlatform, collector: OtlpReceiver
) -> None:
    """Stops the platform: on their way out its services say how often they were called."""
    began = time.monotonic()
    async with platform.client() as client:
        session = await client.session()
        for number in range(TURNS):
            await client.answer(session, f"COST of turn {number}")
    turns = platform.sql("authority", "SELECT count(*) FROM authority.turns")[0][0]
    platform.herma("down")
    calls = served(collector)
    assert calls["herma.api.session.v1.SessionService/Submit"] >= TURNS
    assert calls["herma.api.lease.v1.LeaseService/Append"] >= TURNS
    # Claims that find no work are asked again in time, and a lease is renewed that is held for a second
    # or more, as on a busy machine: both cost time, not turns.
    passed = time.monotonic() - began
    claims, renewals = calls.pop(_CLAIM), calls.pop(_RENEW, 0)
    assert claims <= turns + RUNNERS + 1 + passed / 10, calls
    assert renewals <= passed, calls
    of_turns = sum(count for method, count in calls.items() if method not in _OF_NO_TURN)
    assert of_turns <= turns * (MAX_CALLS - 1), dict(calls)


def served(collector: OtlpReceiver) -> Counter[str]:
    """How often each method was called in each process's life, from its last export."""
    last: dict[tuple[object, ...], Counter[str]] = {}
    for metric in list(collector.metrics):
        if metric.name != "rpc.server.call.duration":
            continue
        counts: Counter[str] = Counter()
        for point in metric.points:
            counts[str(point.attributes["rpc.method"])] += point.count
        last[metric.resource["service.name"], metric.resource["process.pid"]] = counts
    return sum(last.values(), Counter())


@dataclass(slots=True)
class Commits:
    """`durable` wait for the disk; `outside` are statements that ran in no transaction of ours."""

    durable: int = 0
    asynchronous: int = 0
    reading: int = 0
    outside: list[str] = field(default_factory=list)


class StatementLog:
    """What the services say to PostgreSQL."""

    def __init__(self, platform: TestPlatform) -> None:
        self._platform = platform
        for setting, value in (("log_line_prefix", "%p|%x|%u|"), ("log_statement", "all")):
            platform.sql("", f"ALTER SYSTEM SET {setting} = '{value}'")
        platform.sql("", "SELECT pg_reload_conf()")
        self._from = 0

    def begin(self) -> None:
        """Counts from here."""
        self._from = len(self._text())

    def read(self) -> Commits:
        """Counts the transactions of services since `begin`, and stops."""
        text = self._text()[self._from :]
        self._platform.sql("", "ALTER SYSTEM RESET ALL")
        self._platform.sql("", "SELECT pg_reload_conf()")
        commits = Commits()
        open_by_process: dict[str, bool] = {}
        for line in text.splitlines():
            pid, _, rest = line.partition("|")
            xid, _, rest = rest.partition("|")
            user, _, said = rest.partition("|")
            if not user.startswith("herma_") or "LOG:  " not in said:
                continue
            statement = said.partition(": ")[2].strip()
            if said.startswith("LOG:  statement: BEGIN"):
                open_by_process[pid] = False
            if "synchronous_commit = off" in said:
                open_by_process[pid] = True
            elif said.startswith("LOG:  statement: COMMIT"):
                if open_by_process.pop(pid, False):
                    commits.asynchronous += 1
                elif xid == "0":
                    commits.reading += 1
                else:
                    commits.durable += 1
            elif said.startswith("LOG:  statement: ROLLBACK"):
                open_by_process.pop(pid, None)
            elif said.startswith(("LOG:  statement", "LOG:  execute")) and pid not in open_by_process:
                if "pg_notify" in statement:
                    commits.asynchronous += 1
                elif statement.startswith("WITH seen AS MATERIALIZED"):
                    commits.reading += 1
                else:
                    commits.outside.append(statement)
        return commits

    def _text(self) -> str:
        return (self._platform.data / "logs" / "postgres.log").read_text("utf-8", "replace")
