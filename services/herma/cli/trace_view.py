"""A turn's trace as text and as JSON.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len, set_cell_size

from herma.cli.hops import hops
from herma.cli.span_tree import Node, TurnTrace, attempts, is_attempt
from herma.cli.terminal_text import one_line

_BAR = 24


def text_of(trace: TurnTrace, width: int) -> Iterator[str]:
    """The tree, then where the time went; lines of at most `width` cells where that can be.

    `*` marks what is on the critical path.
    """
    path = trace.on_path()
    rows = [
        (node, f"{'*' if node.span.span_id in path else ' '} {branch}{_label(node)}")
        for root in trace.roots
        for node, branch in _branches(root)
    ]
    column = min(max(cell_len(label) for _, label in rows), max(24, width - 46))
    yield f"{'':{column}}  {'service':17} {'at':>10} {'took':>10}"
    for node, label in rows:
        # Cut, not folded: the branches are made of white space.
        name = label if cell_len(label) <= column else set_cell_size(label, column - 1) + "…"
        pad = " " * (column - cell_len(name))
        service = one_line(node.span.service.removeprefix("herma-"), 17)
        at = millis(node.span.start - trace.start)
        yield f"{name}{pad}  {service:17} {at:>10} {millis(node.span.end - node.span.start):>10}".rstrip()
    yield ""
    yield f"where the time went (critical path, {millis(trace.wall)}):"
    for hop in sorted(hops(trace), key=lambda hop: -hop.nanos):
        share = hop.nanos / trace.wall if trace.wall else 0.0
        bar = "#" * round(share * _BAR)
        count = f"{hop.spans} spans" if hop.spans > 1 else ""
        yield f"  {hop.name:18} {millis(hop.nanos):>10} {share:>6.1%}  {bar:{_BAR}} {count}".rstrip()
    if trace.missing:
        yield ""
        yield (
            f"{trace.missing} span(s) are not recorded: their process was killed, has not written them "
            "yet, or writes elsewhere."
        )


def json_of(trace: TurnTrace) -> dict[str, Any]:
    """The same as data; times are milliseconds from the trace's start, parents stand before children."""
    path = trace.on_path()
    own: dict[str, int] = {}
    for segment in trace.segments:
        if not segment.wait:
            span_id = segment.node.span.span_id
            own[span_id] = own.get(span_id, 0) + segment.end - segment.start
    return {
        "wall_ms": trace.wall / 1e6,
        "attempts": len(attempts(trace)),
        "missing_spans": trace.missing,
        "spans": [
            {
                "span_id": node.span.span_id,
                "parent_id": node.span.parent_id or None,
                "name": node.span.name,
                "service": node.span.service,
                "kind": node.span.kind,
                "at_ms": (node.span.start - trace.start) / 1e6,
                "duration_ms": (node.span.end - node.span.start) / 1e6,
                "critical": node.span.span_id in path,
                "critical_self_ms": own.get(node.span.span_id, 0) / 1e6,
                "recorded": node.recorded,
                "failed": node.span.failed,
                "error": str(node.span.attributes.get("error.type", "")),
                "clock_skew_ms": node.skew / 1e6,
                "links": list(node.span.links),
                "attributes": dict(node.span.attributes),
            }
            for root in trace.roots
            for node in root.walk()
        ],
        "hops": [
            {
                "name": hop.name,
                "ms": hop.nanos / 1e6,
                "share": hop.nanos / trace.wall if trace.wall else 0.0,
                "spans": hop.spans,
            }
            for hop in hops(trace)
        ],
    }


def millis(nanos: int) -> str:
    """A duration for people."""
    if nanos >= 10_000_000_000:
        return f"{nanos / 1e9:.1f} s"
    return f"{nanos / 1e6:.1f} ms"


def _label(node: Node) -> str:
    span = node.span
    name = one_line(span.name, 120)
    if span.kind == "SERVER" and "/" in name and " " not in name:
        # herma.api.lease.v1.LeaseService/Append: the end says it.
        name = name.rpartition(".")[2]
    notes = []
    if is_attempt(span):
        notes.append(f"attempt {one_line(str(span.attributes.get('herma.turn.attempt', '?')), 12)}")
        if reason := span.attributes.get("herma.turn.exit_reason"):
            notes.append(one_line(str(reason), 40))
        if span.links:
            notes.append("linked to the one before")
    if "process.exit.code" in span.attributes:
        notes.append(f"exit {one_line(str(span.attributes['process.exit.code']), 12)}")
    error = span.attributes.get("error.type")
    if span.failed or error:
        # Not every refusal is a failure: some are the answer.
        notes.append(("ERROR " if span.failed else "") + one_line(str(error or ""), 40))
    if node.skew:
        notes.append(f"clock off by {millis(abs(node.skew))}")
    return f"{name} ({', '.join(notes)})" if notes else name


def _branches(root: Node) -> Iterator[tuple[Node, str]]:
    """Every node with the lines that lead to it."""
    stack = [(root, "", "")]
    while stack:
        node, lead, below = stack.pop()
        yield node, lead
        last = len(node.children) - 1
        for number in range(last, -1, -1):
            end = number == last
            stack.append(
                (
                    node.children[number],
                    below + ("└─ " if end else "├─ "),
                    below + ("   " if end else "│  "),
                )
            )
