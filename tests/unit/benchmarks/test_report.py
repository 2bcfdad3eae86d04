"""The table, the document, and the hops of a turn."""

from __future__ import annotations

from tests.benchmarks.costs import calls_served
from tests.benchmarks.hops import HOPS, MODEL, hops_of
from tests.benchmarks.machine import Machine
from tests.benchmarks.report import document, row, text_table
from tests.benchmarks.result import Beside, Result, not_measured
from tests.benchmarks.samples import Samples
from tests.benchmarks.target import Target
from tests.support.otlp_receiver import Metric, Point

EXEC = Result(
    "Exec",
    "ms",
    Samples.of([1.0, 2.0, 3.0]),
    (Target("p50", 3, "ms"),),
    (Beside("`docker exec`", Samples.of([50.0]), 15, times_faster=True),),
    "from here to there.",
)
WARM = not_measured("Warm", "p50 ≤ 6 ms", "there is no pool")
MACHINE = Machine((("CPU", "one"), ("Date", "today")))


def test_a_row_has_target_figures_spread_and_peer() -> None:
    assert row(EXEC) == (
        "Exec",
        "p50 ≤ 3 ms; ≥ 15 × `docker exec`",
        "2.00 ms",
        "2.90",
        "1.50–2.50",
        "1.00–3.00",
        "3",
        "`docker exec` 50.0 ms (25.0 × faster)",
        "met",
    )


def test_a_row_that_was_not_measured_shows_no_figure_and_says_why() -> None:
    what, target, *figures, verdict = row(WARM)
    assert (what, target) == ("Warm", "p50 ≤ 6 ms")
    assert set(figures) == {"–"}
    assert verdict == "not measured: there is no pool"


def test_the_document_has_machine_commands_figures_and_definitions() -> None:
    slow = Result("Slow", "ms", Samples.of([20.0]), (Target("p50", 3, "ms"),))
    text = document([EXEC, WARM, slow], MACHINE, ["make bench"], [("Hops", "a table")], quick=True)
    assert "3 lines, 1 beyond their target, 1 not measured." in text
    assert "A quick run" in text
    assert "| CPU | one |" in text
    assert "```sh\nmake bench\n```" in text
    assert "- **Exec**: from here to there." in text
    assert text.endswith("## Hops\n\na table\n")
    assert "A quick run" not in document([EXEC], MACHINE, ["make bench"], [], quick=False)


def test_the_terminal_s_table_names_every_line() -> None:
    shown = text_table([EXEC, WARM])
    assert "met  Exec" in shown
    assert "not measured  Warm" in shown
    assert "there is no pool" in shown


def _span(name: str, start: int, end: int) -> dict[str, object]:
    return {"name": name, "start": start * 1_000_000, "end": end * 1_000_000, "attributes": {}}


def _trace() -> list[dict[str, object]]:
    append = "herma.api.lease.v1.LeaseService/Append"
    return [
        _span(append, 40, 46),
        _span("POST /v1/sessions/{session_id}/messages", 1, 12),
        _span("herma.api.session.v1.SessionService/Submit", 3, 10),
        _span("invoke_agent default", 15, 50),
        _span(append, 16, 20),
        _span("chat scripted", 21, 39),
    ]


def test_the_hops_of_a_turn_leave_no_time_out() -> None:
    hops = hops_of(0, 49_000_000, _trace())  # type: ignore[arg-type]  # as the file has it
    assert hops is not None
    assert len(hops) == len(HOPS)
    assert sum(hops) == 49
    assert hops[MODEL] == 18
    assert hops[2] == 7


def test_a_turn_of_another_shape_has_no_hops() -> None:
    trace = _trace()
    assert hops_of(0, 1, trace[1:]) is None  # type: ignore[arg-type]
    assert hops_of(0, 1, [*trace, _span("chat scripted", 1, 2)]) is None  # type: ignore[list-item]
    assert hops_of(0, 1, []) is None


def test_served_calls_are_counted_by_each_process_s_newest_export() -> None:
    def export(pid: int, count: int, method: str = "herma.api.lease.v1.LeaseService/Append") -> Metric:
        point = Point({"rpc.method": method, "rpc.system.name": "grpc"}, 1.0, count)
        return Metric("rpc.server.call.duration", "s", (point,), {"process.pid": pid})

    other = Metric("other", "s", (Point({}, 1.0, 5),), {"process.pid": 1})
    served = calls_served([export(1, 3), export(2, 4), export(1, 9), other])
    assert served == {"LeaseService/Append": 13}
