"""One line of the table: what was measured, beside what, and what it had to be."""

from __future__ import annotations

from dataclasses import dataclass

from tests.benchmarks.samples import Samples
from tests.benchmarks.target import Target, Verdict, worst


@dataclass(frozen=True, slots=True)
class Beside:
    """A peer, or a floor that nothing can be below, measured in the same run in the same unit.

    Attributes:
        faster_is_more: The unit is a rate, so that the ratio is ours to theirs; else theirs to ours.
        bound: The ratio's target, if there is one: at least for `times_faster`, else at most.
        times_faster: The ratio says how many times faster Herma is; else how many times it takes.
    """

    name: str
    samples: Samples
    bound: float | None = None
    times_faster: bool = False
    faster_is_more: bool = False

    def ratio(self, ours: Samples) -> float:
        """Of the medians."""
        if self.times_faster and not self.faster_is_more:
            return self.samples.median / ours.median
        return ours.median / self.samples.median

    def judge(self, ours: Samples) -> Verdict:
        """How the ratio compares with its target."""
        if self.bound is None:
            return Verdict.NONE
        ratio = Samples.of([self.ratio(ours)])
        return Target("p50", self.bound, "×", at_least=self.times_faster).judge(ratio)


@dataclass(frozen=True, slots=True)
class Result:
    """One line.

    Attributes:
        samples: None if it could not be measured; then `reason` says why.
        notes: How exactly it is defined and measured.
        promised: The target in words, for a line that could not be measured.
    """

    what: str
    unit: str
    samples: Samples | None
    targets: tuple[Target, ...] = ()
    beside: tuple[Beside, ...] = ()
    notes: str = ""
    reason: str = ""
    promised: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst of all its targets; `NOT_MEASURED` without samples, whatever the targets."""
        if self.samples is None:
            return Verdict.NOT_MEASURED
        ours = self.samples
        return worst(
            [
                *(target.judge(ours) for target in self.targets),
                *(other.judge(ours) for other in self.beside),
            ]
        )


def not_measured(what: str, target: str, reason: str) -> Result:
    """A line of the design that cannot be measured, for a reason."""
    return Result(what, "", None, reason=reason, promised=target)


def exit_code(results: list[Result]) -> int:
    """1 if any target is not reached, be it nearly; what was not measured fails nothing."""
    return int(any(result.verdict in (Verdict.NEAR, Verdict.MISSED) for result in results))
