"""How much to measure, and where what is going on is told."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from tests.benchmarks.result import Result
from tests.support.platform import docker_answers


@dataclass(slots=True)
class Bench:
    """One run of the benchmarks.

    Attributes:
        quick: Fewer samples.
        sections: Titles and Markdown bodies that go into the document after the table.
        broken: A measurement raised: the run has failed, whatever the figures say.
    """

    quick: bool = False
    sections: list[tuple[str, str]] = field(default_factory=list)
    broken: bool = False
    results: list[Result] = field(default_factory=list)

    def count(self, full: int, quick: int) -> int:
        """How many samples to take."""
        return quick if self.quick else full

    @property
    def backend(self) -> str:
        """What to make sandboxes with."""
        return "docker" if docker_answers() else "local"

    def say(self, text: str) -> None:
        """Tells who waits what goes on."""
        print(text, file=sys.stderr, flush=True)
