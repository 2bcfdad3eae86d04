"""A turn without tools costs at most five RPCs and four waits for the disk, counted where they happen."""

from __future__ import annotations

import asyncio

from tests.benchmarks.costs import rpcs_of_turns, run_turns, transactions
from tests.benchmarks.stage import Stage

TURNS = 25
# Sessions of PostgreSQL report what they did when they have been idle for a second.
REPORTED = 2.5


async def test_a_turn_without_tools_costs_at_most_five_rpcs() -> None:
    rpcs = await asyncio.to_thread(rpcs_of_turns, "local", TURNS, "Say something.")
    assert rpcs["SessionService/Submit"] == TURNS
    assert rpcs["LeaseService/Append"] == 2 * TURNS
    assert TURNS <= rpcs["LeaseService/Claim"] <= TURNS + 3
    # Keys that are looked up again and leases that are renewed go by time, not by turn.
    by_time = rpcs["IdentityService/Authenticate"] + rpcs["LeaseService/Renew"]
    assert rpcs.total() - by_time <= 5 * TURNS + 3, rpcs


async def test_a_turn_without_tools_waits_for_the_disk_at_most_four_times() -> None:
    with Stage("local") as stage:
        admin = await stage.connect()
        try:
            await run_turns(stage, 3, "Say something first.")
            await asyncio.sleep(REPORTED)
            before = await transactions(admin)
            await run_turns(stage, TURNS, "Say something.")
            await asyncio.sleep(REPORTED)
            after = await transactions(admin)
        finally:
            await admin.close()
    waits = after[1] - before[1]
    # A few more: the session is made, and whoever writes out a page waits for its log.
    assert TURNS <= waits <= 4 * TURNS + 6, waits
