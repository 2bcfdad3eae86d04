"""A turn's spans as a tree, its critical path, and where the time went.  Pure.

A span may start after its parent ended (the runner's work under the request that admitted it) and may be
missing (its process was killed, or has not written yet).  So a node has an *extent*: from the first start
to the last end of it and everything below it.  The critical path is found from the root's end backwards:
the child that finished last was waited for; before that child started, the one that had finished last
then; and so on, recursively.  What no child covers is the node's own: `self` while the node itself ran,
`wait` where nothing that is known of ran.

Invariant: the segments of the critical path are disjoint and cover the root's extent, so they add up to
the turn's wall time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

# Where turns come in: its spans' parents are the callers'.
ENTRANCE = "herma-gateway"


@dataclass(frozen=True, slots=True)
class Span:
    """One span; times are Unix nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    kind: str
    start: int
    end: int
    failed: bool = False
    attributes: Mapping[str, object] = field(default_factory=dict)
    links: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Node:
    """A span with what it caused, in the order of their starts.

    Attributes:
        recorded: Whether the span itself was found; else it is known from its children only.
        skew: Nanoseconds by which its times were moved, since its clock differs from its parent's.
    """

    span: Span
    children: list[Node] = field(default_factory=list)
    recorded: bool = True
    skew: int = 0
    start: int = 0
    end: int = 0

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the critical path that is a node's own; `wait` when the node itself did not run."""

    start: int
    end: int
    node: Node
    wait: bool


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """A turn's tree.  `roots` are in the order of their starts."""

    roots: Sequence[Node]
    segments: Sequence[Segment]
    start: int
    end: int

    @property
    def wall(self) -> int:
        """Nanoseconds from the first start to the last end."""
        return self.end - self.start

    @property
    def missing(self) -> int:
        """Spans that are known of and were not found."""
        return sum(not node.recorded for root in self.roots for node in root.walk())

    def on_path(self) -> set[str]:
        """Ids of the spans on the critical path, with those that lead to them."""
        found = {segment.node.span.span_id for segment in self.segments}
        for root in self.roots:
            for node in reversed(list(root.walk())):
                if any(child.span.span_id in found for child in node.children):
                    found.add(node.span.span_id)
        return found


def build(spans: Iterable[Span], turn_id: str) -> TurnTrace | None:
    """The tree of one turn; None when there is no span of it.

    A caller may send many turns under one trace of its own: then only what belongs to this turn is taken.
    """
    nodes = {span.span_id: Node(span) for span in spans if span.span_id}
    roots, stand_ins = _link(nodes)
    mine = [node for node in nodes.values() if _turn_of(node) == turn_id]
    shared = any(_turn_of(node) not in ("", turn_id) for node in nodes.values())
    lost = _lost_attempts(mine, stand_ins, shared)
    home = next((nodes[node.span.parent_id] for node in mine if node.span.parent_id in nodes), None)
    for node in lost:
        if home is None:
            roots.append(node)
        elif not _is_above(nodes, node, home):
            home.children.append(node)
    roots = _of_turn(roots, turn_id)
    if not roots:
        return None
    for root in roots:
        _settle(root)
    roots.sort(key=lambda node: node.start)
    start, end = min(node.start for node in roots), max(node.end for node in roots)
    segments = list(_critical(_whole(roots, start, end), end))
    segments.reverse()
    return TurnTrace(roots, segments, start, end)


def attempts(trace: TurnTrace) -> list[Node]:
    """The turn's attempts (`invoke_agent` spans) that were recorded, oldest first."""
    found = [node for root in trace.roots for node in root.walk() if is_attempt(node.span)]
    return sorted(found, key=lambda node: node.span.start)


def is_attempt(span: Span) -> bool:
    """Whether a span is an attempt at a turn."""
    return span.attributes.get("gen_ai.operation.name") == "invoke_agent"


def _turn_of(node: Node) -> str:
    return str(node.span.attributes.get("herma.turn.id", ""))


def _link(nodes: Mapping[str, Node]) -> tuple[list[Node], dict[str, Node]]:
    """Puts nodes under their parents.

    Returns:
        The roots, and for each parent that was not found one that stands in for it.
    """
    roots: list[Node] = []
    stand_ins: dict[str, Node] = {}
    for node in nodes.values():
        above = node.span.parent_id
        parent = nodes.get(above)
        if parent is None and above and node.span.service != ENTRANCE:
            parent = stand_ins.setdefault(above, _stand_in(node.span))
        # An entrance's parent is the caller's, whose spans are kept elsewhere.
        if parent is None or _is_above(nodes, node, parent):
            roots.append(node)
        else:
            parent.children.append(node)
    return roots, stand_ins


def _lost_attempts(mine: Sequence[Node], stand_ins: Mapping[str, Node], shared: bool) -> list[Node]:
    """What stands in for spans that were not found: of the turn, as far as that can be told."""
    linked = {link for node in mine for link in node.span.links}
    found = []
    for span_id, node in stand_ins.items():
        if span_id in linked:
            node.span = replace(node.span, name="invoke_agent (not recorded)")
        if span_id in linked or not shared or any(_turn_of(below) for below in node.walk()):
            found.append(node)
    return found


def _stand_in(child: Span) -> Node:
    span = replace(
        child,
        span_id=child.parent_id,
        parent_id="",
        name="(not recorded)",
        service="",
        kind="",
        failed=False,
        attributes={},
        links=(),
    )
    return Node(span, recorded=False)


def _is_above(nodes: Mapping[str, Node], node: Node, parent: Node) -> bool:
    """Whether the parent is the node itself or below it: spans are data, and data may lie."""
    seen: set[str] = set()
    above: Node | None = parent
    while above is not None and above.span.span_id not in seen:
        if above is node:
            return True
        seen.add(above.span.span_id)
        above = nodes.get(above.span.parent_id)
    return False


def _of_turn(roots: list[Node], turn_id: str) -> list[Node]:
    """The roots that the turn is under; those that are no other turn's while it is under none."""
    named = [(root, {_turn_of(node) for node in root.walk()} - {""}) for root in roots]
    mine = [root for root, turns in named if turn_id in turns]
    return mine or [root for root, turns in named if not turns]


def _settle(node: Node) -> None:
    """Puts children in order, their clocks in step, and gives every node its extent."""
    order = list(node.walk())
    for parent in order:
        if not parent.recorded:
            parent.span = replace(
                parent.span,
                start=min(child.span.start for child in parent.children),
                end=max(child.span.end for child in parent.children),
            )
        for child in parent.children:
            _put_in_step(parent, child)
        parent.children.sort(key=lambda child: (child.span.start, child.span.end))
    for node in reversed(order):
        node.start = min([node.span.start, *(child.start for child in node.children)])
        node.end = max([node.span.end, *(child.end for child in node.children)])


def _put_in_step(parent: Node, child: Node) -> None:
    """A server cannot begin before it was called, nor after the call's end: then its clock is off."""
    above, below = parent.span, child.span
    if below.kind != "SERVER" or not parent.recorded or below.service == above.service:
        return
    if above.start <= below.start <= above.end:
        return
    spare = max(0, (above.end - above.start) - (below.end - below.start))
    shift = above.start + spare // 2 - below.start
    for node in child.walk():
        node.span = replace(node.span, start=node.span.start + shift, end=node.span.end + shift)
        node.skew += shift


def _whole(roots: list[Node], start: int, end: int) -> Node:
    """What holds all roots.  A single root is it, so that no time is taken from it."""
    if len(roots) == 1:
        return roots[0]
    span = replace(roots[0].span, span_id="", name="turn", service="", start=end, end=end)
    return Node(span, sorted(roots, key=lambda node: node.start), False, 0, start, end)


def _critical(root: Node, until: int) -> Iterator[Segment]:
    """The path from `until` back to the root's start, newest first."""
    # Each frame: a node, the time from which it is looked back, its children still to be looked at.
    stack = [(root, until, sorted(root.children, key=lambda child: (child.end, child.start)))]
    while stack:
        node, now, left = stack.pop()
        while left and left[-1].start >= now:
            left.pop()
        if not left:
            yield from _own(node, node.start, now)
            continue
        # What ran on beyond `now` counts up to there.
        child = left.pop()
        ended = min(child.end, now)
        yield from _own(node, ended, now)
        stack.append((node, child.start, left))
        below = sorted(child.children, key=lambda node: (node.end, node.start))
        stack.append((child, ended, below))


def _own(node: Node, start: int, end: int) -> Iterator[Segment]:
    """A gap between children, newest part first: the node's own time, or waiting outside of it."""
    if start >= end:
        return
    first = min(max(node.span.start, start), end)
    last = max(min(node.span.end, end), first)
    for left, right, wait in ((last, end, True), (first, last, False), (start, first, True)):
        if left < right:
            yield Segment(left, right, node, wait or not node.recorded)
