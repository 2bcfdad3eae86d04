"""Promises of the design about what Herma does not do yet: named, so that nobody takes them for met."""

from __future__ import annotations

from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Result, not_measured


async def measure(bench: Bench) -> list[Result]:
    """Nothing."""
    return [
        not_measured(
            "Sync of a 10,000-file workspace",
            "unchanged ≤ 60 ms; one file changed ≤ 90 ms; first copy ≤ 3 × `rsync`",
            "workspaces are not synchronised yet",
        ),
    ]
