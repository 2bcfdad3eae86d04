"""Measured values of one quantity, and what is said of them.

Invariant: values are sorted and there is at least one; every statistic is in the values' own unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Samples:
    """Sorted values; make one with `of`."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Samples:
        """Takes values in any order.

        Raises:
            ValueError: when there is none, or one is no number.
        """
        found = tuple(sorted(values))
        if not found:
            raise ValueError("a statistic needs a sample")
        if any(value != value for value in found):
            raise ValueError("a sample is no number")
        return cls(found)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.values)

    @property
    def least(self) -> float:
        """The smallest."""
        return self.values[0]

    @property
    def most(self) -> float:
        """The largest."""
        return self.values[-1]

    @property
    def median(self) -> float:
        """Half are at most this."""
        return self.quantile(0.5)

    @property
    def p95(self) -> float:
        """19 of 20 are at most this."""
        return self.quantile(0.95)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between these lies the middle half."""
        return self.quantile(0.25), self.quantile(0.75)

    def quantile(self, share: float) -> float:
        """The value below which a share (0 to 1) lies, interpolated between its neighbours.

        The same as Hyndman and Fan's type 7, the default of R and NumPy.
        """
        if not 0 <= share <= 1:
            raise ValueError("a share lies between 0 and 1")
        place = share * (len(self.values) - 1)
        below = int(place)
        above = min(below + 1, len(self.values) - 1)
        return self.values[below] + (self.values[above] - self.values[below]) * (place - below)

    def minus(self, amount: float) -> Samples:
        """Each less the same amount: what is left when a floor is taken off."""
        return Samples(tuple(value - amount for value in self.values))

    def times(self, factor: float) -> Samples:
        """Each in another unit.

        Raises:
            ValueError: for a factor that would turn the order round.
        """
        if factor <= 0:
            raise ValueError("a unit's factor is positive")
        return Samples(tuple(value * factor for value in self.values))
