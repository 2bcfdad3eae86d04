"""Targets, verdicts and what a run's exit code says."""

from __future__ import annotations

import pytest
from tests.benchmarks.result import Beside, Result, exit_code, not_measured
from tests.benchmarks.samples import Samples
from tests.benchmarks.target import Target, Verdict, worst

AT_MOST = Target("p50", 10, "ms")
AT_LEAST = Target("p50", 150, "/s", at_least=True)


def one(value: float) -> Samples:
    return Samples.of([value])


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (AT_MOST, 10, Verdict.MET),
        (AT_MOST, 10.1, Verdict.NEAR),
        (AT_MOST, 15, Verdict.NEAR),
        (AT_MOST, 15.1, Verdict.MISSED),
        (AT_LEAST, 150, Verdict.MET),
        (AT_LEAST, 149, Verdict.NEAR),
        (AT_LEAST, 100, Verdict.NEAR),
        (AT_LEAST, 99, Verdict.MISSED),
    ],
)
def test_a_target_is_met_near_or_missed(target: Target, value: float, verdict: Verdict) -> None:
    assert target.judge(one(value)) is verdict


def test_the_statistic_that_is_bounded_counts() -> None:
    samples = Samples.of([1.0] * 18 + [100.0, 100.0])
    assert Target("p50", 10, "ms").judge(samples) is Verdict.MET
    assert Target("p95", 10, "ms").judge(samples) is Verdict.MISSED
    assert Target("worst", 10, "ms").judge(samples) is Verdict.MISSED
    assert Target("worst", 1, "/s", at_least=True).judge(samples) is Verdict.MET
    with pytest.raises(ValueError, match="no statistic"):
        Target("mean", 1, "").judge(samples)


def test_a_line_is_as_bad_as_its_worst_target() -> None:
    line = Result("x", "ms", one(12), (Target("p50", 14, "ms"), Target("p95", 10, "ms")))
    assert line.verdict is Verdict.NEAR
    assert worst([]) is Verdict.NONE


def test_a_ratio_to_a_peer_is_a_target_too() -> None:
    def line(ours: float) -> Result:
        return Result("exec", "ms", one(ours), (), (Beside("docker exec", one(60), 15, True),))

    assert line(4).beside[0].ratio(one(4)) == 15
    assert (line(4).verdict, line(5).verdict, line(10).verdict) == (
        Verdict.MET,
        Verdict.NEAR,
        Verdict.MISSED,
    )


def test_a_ratio_to_a_floor_is_bounded_above() -> None:
    floor = Beside("create and start", one(100), 1.9)
    assert floor.judge(one(190)) is Verdict.MET
    assert floor.judge(one(200)) is Verdict.NEAR
    assert Beside("no bound", one(100)).judge(one(1e9)) is Verdict.NONE


def test_a_ratio_of_rates_says_how_many_times_more() -> None:
    assert Beside("jobs", one(50), times_faster=True, faster_is_more=True).ratio(one(150)) == 3


def test_what_was_not_measured_is_never_met() -> None:
    line = not_measured("exec", "p50 ≤ 3 ms", "no engine")
    assert line.verdict is Verdict.NOT_MEASURED
    assert worst([Verdict.MET, line.verdict]) is Verdict.NOT_MEASURED
    assert Result("x", "ms", None, (AT_MOST,)).verdict is Verdict.NOT_MEASURED


def test_the_exit_code_tells_of_any_target_not_reached() -> None:
    met, near = Result("a", "ms", one(1), (AT_MOST,)), Result("b", "ms", one(12), (AT_MOST,))
    missed = Result("c", "ms", one(99), (AT_MOST,))
    left = not_measured("d", "p50 ≤ 3 ms", "no engine")
    assert exit_code([met, left, Result("e", "ms", one(5))]) == 0
    assert exit_code([met, near]) == 1
    assert exit_code([missed, met]) == 1
