"""Statistics of samples."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.benchmarks.samples import Samples

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


def test_known_values() -> None:
    samples = Samples.of([4.0, 1.0, 3.0, 2.0])
    assert (samples.count, samples.least, samples.most) == (4, 1.0, 4.0)
    assert samples.median == 2.5
    assert samples.quartiles == (1.75, 3.25)
    assert samples.p95 == pytest.approx(3.85)


def test_one_value_is_every_statistic() -> None:
    samples = Samples.of([7.0])
    assert {samples.median, samples.p95, *samples.quartiles, samples.least, samples.most} == {7.0}


@given(NUMBERS)
def test_the_median_is_the_library_s(values: list[float]) -> None:
    assert Samples.of(values).median == pytest.approx(statistics.median(values), abs=1e-6)


@given(NUMBERS)
def test_statistics_are_in_order(values: list[float]) -> None:
    samples = Samples.of(values)
    low, high = samples.quartiles
    near = 1e-6
    assert samples.least <= low + near
    assert low <= samples.median + near
    assert samples.median <= high + near
    assert high <= samples.p95 + near
    assert samples.p95 <= samples.most + near


def test_a_floor_is_taken_off_each() -> None:
    assert Samples.of([3.0, 5.0]).minus(2.0).values == (1.0, 3.0)


def test_another_unit() -> None:
    assert Samples.of([1.0, 2.0]).times(1000).values == (1000.0, 2000.0)
    with pytest.raises(ValueError, match="positive"):
        Samples.of([1.0]).times(-1)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_nothing_is_no_sample(values: list[float]) -> None:
    with pytest.raises(ValueError, match="sample"):
        Samples.of(values)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_lies_between_0_and_1(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        Samples.of([1.0]).quantile(share)
