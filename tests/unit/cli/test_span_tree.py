"""A turn's tree and its critical path, on spans made by hand (times in plain units)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from herma.cli.hops import hops
from herma.cli.span_tree import Span, TurnTrace, attempts, build

TURN = "turn-1"


def span(
    span_id: str,
    parent: str,
    start: int,
    end: int,
    name: str = "",
    service: str = "herma-agent-runner",
    kind: str = "INTERNAL",
    links: tuple[str, ...] = (),
    **attributes: object,
) -> Span:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return Span("t", span_id, parent, name or span_id, service, kind, start, end, False, named, links)


def entry(start: int, end: int, span_id: str = "post", parent: str = "") -> Span:
    return span(span_id, parent, start, end, "POST", "herma-gateway", "SERVER")


def attempt(
    span_id: str, start: int, end: int, turn: str = TURN, parent: str = "post", **more: object
) -> Span:
    links = more.pop("links", ())
    assert isinstance(links, tuple)
    return span(
        span_id, parent, start, end, "invoke_agent default", links=links,
        herma__turn__id=turn, gen_ai__operation__name="invoke_agent", **more,
    )  # fmt: skip


def rpc(span_id: str, parent: str, start: int, end: int, name: str = "LeaseService/Append") -> Span:
    return span(span_id, parent, start, end, name, "herma-session-authority", "SERVER")


def path(trace: TurnTrace) -> list[tuple[str, int, int, bool]]:
    return [(s.node.span.span_id, s.start, s.end, s.wait) for s in trace.segments]


def built(*spans: Span, turn: str = TURN) -> TurnTrace:
    trace = build(spans, turn)
    assert trace is not None
    assert sum(s.end - s.start for s in trace.segments) == trace.wall
    assert sum(hop.nanos for hop in hops(trace)) == trace.wall
    return trace


def test_the_child_that_ends_last_is_on_the_path_and_gaps_are_the_parents() -> None:
    trace = built(
        attempt("a", 0, 100, parent=""),
        span("early", "a", 10, 30),
        span("short", "a", 40, 60),
        span("long", "a", 40, 90),
        span("inner", "long", 50, 80),
    )
    assert path(trace) == [
        ("a", 0, 10, False),
        ("early", 10, 30, False),
        ("a", 30, 40, False),
        ("long", 40, 50, False),
        ("inner", 50, 80, False),
        ("long", 80, 90, False),
        ("a", 90, 100, False),
    ]
    assert trace.on_path() == {"a", "early", "long", "inner"}


def test_overlapping_children_are_counted_once() -> None:
    trace = built(attempt("a", 0, 100, parent=""), span("x", "a", 0, 60), span("y", "a", 40, 100))
    assert path(trace) == [("x", 0, 40, False), ("y", 40, 100, False)]


def test_the_wait_in_the_queue_is_nobodys_own_time() -> None:
    trace = built(
        entry(0, 10),
        rpc("submit", "post", 2, 8, "SessionService/Submit"),
        span("claim", "post", 500, 503, "claim", "herma-session-authority", "CONSUMER"),
        attempt("a", 505, 600),
    )
    assert ("post", 10, 500, True) in path(trace)
    spent = {hop.name: hop.nanos for hop in hops(trace)}
    assert spent == {
        "gateway": 4, "admission": 6, "queue wait": 490 + 2, "claim": 3, "runner": 95,
    }  # fmt: skip


def test_an_attempt_whose_runner_was_killed_is_known_by_what_it_asked_for() -> None:
    trace = built(
        entry(0, 10),
        rpc("append-1", "dead", 20, 30),
        rpc("append-2", "dead", 40, 50),
        attempt("second", 200, 300, links=("dead",)),
    )
    assert [node.span.span_id for node in attempts(trace)] == ["second"]
    assert trace.missing == 1
    [root] = trace.roots
    names = [node.span.name for node in root.walk()]
    assert names[1] == "invoke_agent (not recorded)"
    spent = {hop.name: hop.nanos for hop in hops(trace)}
    assert spent["append"] == 20
    assert spent["lost attempt"] == 10
    assert spent["queue wait"] == (20 - 10) + (200 - 50)


def test_attempts_in_a_row_are_all_there_in_order() -> None:
    trace = built(
        entry(0, 5), attempt("b", 50, 90, links=("a",)), attempt("a", 10, 40), rpc("x", "a", 20, 30)
    )
    assert [node.span.span_id for node in attempts(trace)] == ["a", "b"]
    assert [s for s in path(trace) if s[3]] == [("post", 5, 10, True), ("post", 40, 50, True)]


def test_without_the_root_the_rest_is_shown() -> None:
    trace = built(attempt("a", 10, 100), rpc("x", "a", 20, 30))
    assert trace.missing == 1
    assert trace.wall == 90
    assert {hop.name for hop in hops(trace)} == {"runner", "append"}


def test_clocks_that_differ_are_put_in_step_and_it_is_said() -> None:
    trace = built(
        attempt("a", 1000, 1100, parent=""),
        rpc("x", "a", 5000, 5040),
        span("db", "x", 5010, 5020, service="herma-session-authority", kind="CLIENT"),
    )
    [root] = trace.roots
    [child] = root.children
    assert (child.span.start, child.span.end, child.skew) == (1030, 1070, -3970)
    assert (child.children[0].span.start, child.children[0].span.end) == (1040, 1050)
    assert trace.wall == 100


def test_what_a_caller_did_under_the_same_trace_is_left_out() -> None:
    trace = built(
        entry(0, 10, "create", "client"),
        entry(20, 30, "post", "client"),
        attempt("a", 40, 90),
        entry(100, 110, "post-2", "client"),
        attempt("b", 120, 200, turn="turn-2", parent="post-2"),
        rpc("x", "dead-of-b", 112, 115),
    )
    assert [root.span.span_id for root in trace.roots] == ["post"]
    assert trace.missing == 0
    assert trace.wall == 70


def test_a_turn_that_waits_shows_its_admission() -> None:
    trace = built(entry(0, 10), rpc("submit", "post", 2, 8, "SessionService/Submit"))
    assert trace.wall == 10
    assert build([], TURN) is None


def test_spans_in_a_circle_or_twice_do_no_harm() -> None:
    trace = built(
        span("x", "y", 0, 10), span("y", "x", 2, 8), span("z", "z", 3, 4),
        attempt("a", 5, 20, parent="x"),
        attempt("a", 5, 20, parent="x"),
    )  # fmt: skip
    assert trace.wall > 0


_IDS = [f"s{number}" for number in range(8)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(_IDS),
            st.sampled_from(["", *_IDS, "missing"]),
            st.integers(0, 60),
            st.integers(0, 40),
            st.sampled_from(["herma-gateway", "herma-agent-runner", "herma-session-authority"]),
            st.sampled_from(["SERVER", "INTERNAL"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_path_covers_the_wall_time_whatever_the_spans(
    rows: list[tuple[str, str, int, int, str, str]],
) -> None:
    spans = [span(i, p, s, s + d, service=service, kind=kind) for i, p, s, d, service, kind in rows]
    trace = build(spans, TURN)
    assert trace is not None
    at = trace.start
    for segment in trace.segments:
        assert segment.start == at
        assert segment.end > segment.start
        at = segment.end
    assert at == trace.end
    assert sum(hop.nanos for hop in hops(trace)) == trace.wall
    assert sum(1 for root in trace.roots for _ in root.walk()) >= len({row[0] for row in rows})
