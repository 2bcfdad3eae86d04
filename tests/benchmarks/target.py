"""What a figure must be, and how far it is from that.

Invariant: what was not measured is never met.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tests.benchmarks.samples import Samples

# Beyond this a target is missed, whatever a profile shows.
NEAR = 1.5


class Verdict(StrEnum):
    """How a line came out; the later, the worse."""

    NONE = "–"
    MET = "met"
    NOT_MEASURED = "not measured"
    NEAR = "within 1.5×"
    MISSED = "missed"


_ORDER = list(Verdict)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several; `NONE` of none."""
    return max(verdicts, key=_ORDER.index, default=Verdict.NONE)


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on one statistic.

    Attributes:
        statistic: `p50`, `p95`, or `worst` for the sample furthest on the wrong side.
        bound: In the samples' unit.
        at_least: The figure must not be below the bound, instead of not above it.
    """

    statistic: str
    bound: float
    unit: str
    at_least: bool = False

    def figure(self, samples: Samples) -> float:
        """The statistic that is bounded.

        Raises:
            ValueError: for a statistic that is none.
        """
        if self.statistic == "p50":
            return samples.median
        if self.statistic == "p95":
            return samples.p95
        if self.statistic == "worst":
            return samples.least if self.at_least else samples.most
        raise ValueError(f"no statistic {self.statistic!r}")

    def judge(self, samples: Samples) -> Verdict:
        """How the samples compare."""
        figure = self.figure(samples)
        if self.at_least:
            met, near = figure >= self.bound, figure * NEAR >= self.bound
        else:
            met, near = figure <= self.bound, figure <= self.bound * NEAR
        return Verdict.MET if met else Verdict.NEAR if near else Verdict.MISSED

    def __str__(self) -> str:
        return f"{self.statistic} {'≥' if self.at_least else '≤'} {self.bound:g} {self.unit}".strip()
