"""Runs the measurements, shows them, and says by its exit code whether the targets are reached."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from tests.benchmarks.bench import Bench
from tests.benchmarks.lines import (
    beside_hermes,
    call_overhead,
    claim_latency,
    cold_start,
    event_latency,
    exec_latency,
    idle_memory,
    not_yet,
    recall,
    start_up,
    turn_cost,
    turn_overhead,
    turn_profile,
    turns_per_second,
)
from tests.benchmarks.machine import Machine
from tests.benchmarks.report import document, text_table
from tests.benchmarks.result import Result, exit_code, not_measured

_DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"

Measure = Callable[[Bench], Awaitable[list[Result]]]
MEASUREMENTS: dict[str, Measure] = {
    "turn-overhead": turn_overhead.measure,
    "call-overhead": call_overhead.measure,
    "claim-latency": claim_latency.measure,
    "turns-per-second": turns_per_second.measure,
    "turn-cost": turn_cost.measure,
    "cold-start": cold_start.measure,
    "exec-latency": exec_latency.measure,
    "event-latency": event_latency.measure,
    "idle-memory": idle_memory.measure,
    "start-up": start_up.measure,
    "recall": recall.measure,
    "not-yet": not_yet.measure,
    "turn-profile": turn_profile.measure,
    "beside-hermes": beside_hermes.measure,
}


async def run(bench: Bench, names: list[str]) -> None:
    """Measures; what breaks is not measured, and the rest goes on."""
    for name in names:
        began = time.monotonic()
        bench.say(f"{name} …")
        shown = len(bench.sections)
        try:
            found = await MEASUREMENTS[name](bench)
        except Exception as error:
            traceback.print_exc()
            found = [not_measured(name, "see the design", f"it broke: {type(error).__name__}")]
            bench.broken = True
        bench.say(text_table(found))
        for title, body in bench.sections[shown:]:
            bench.say(f"{title}\n\n{body}")
        bench.say(f"{name} took {time.monotonic() - began:.0f} s\n")
        bench.results += found


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"no measurement {unknown[0]!r}; there are {', '.join(MEASUREMENTS)}")
    bench = Bench(quick=given.quick)
    names = given.names or list(MEASUREMENTS)
    machine = Machine.here()
    uvloop.run(run(bench, names))
    if given.write:
        commands = ["make bench" + (" QUICK=1" if given.quick else "")]
        text = document(bench.results, machine, commands, bench.sections, quick=given.quick)
        _DOCUMENT.write_text(text)
        bench.say(f"written: {_DOCUMENT}")
    print(text_table(bench.results), flush=True)
    sys.exit(exit_code(bench.results) or int(bench.broken))


if __name__ == "__main__":
    main()
