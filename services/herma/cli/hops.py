"""Where the time of a turn went, hop by hop.  Pure.

Every stretch of the critical path belongs to exactly one hop, so the hops add up to the wall time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from herma.cli.span_tree import ENTRANCE, Segment, Span, TurnTrace, is_attempt


@dataclass(frozen=True, slots=True)
class Hop:
    """A part of the way.  `spans` counts the spans that it took, `nanos` their time on the path."""

    name: str
    nanos: int
    spans: int


def hops(trace: TurnTrace) -> list[Hop]:
    """The hops of a turn in the order in which they were first met."""
    spent: dict[str, int] = {}
    seen: dict[str, set[str]] = {}
    for segment in trace.segments:
        name = hop_of(segment)
        spent[name] = spent.get(name, 0) + segment.end - segment.start
        seen.setdefault(name, set()).add(segment.node.span.span_id)
    return [Hop(name, nanos, len(seen[name])) for name, nanos in spent.items()]


def hop_of(segment: Segment) -> str:
    """The hop that a stretch belongs to."""
    span = segment.node.span
    if segment.wait:
        # Under a request that was answered long ago, or between attempts: no runner has the turn.
        return "queue wait" if segment.node.recorded or not span.span_id else "lost attempt"
    for name, fits in _HOPS:
        if fits(span):
            return name
    return span.service.removeprefix("herma-") or "unknown"


def _rpc(suffix: str) -> Callable[[Span], bool]:
    return lambda span: span.name.endswith(suffix)


def _operation(name: str) -> Callable[[Span], bool]:
    return lambda span: span.attributes.get("gen_ai.operation.name") == name


_HOPS: tuple[tuple[str, Callable[[Span], bool]], ...] = (
    ("gateway", lambda span: span.service == ENTRANCE),
    ("admission", _rpc("SessionService/Submit")),
    ("claim", lambda span: span.name == "claim"),
    ("runner", is_attempt),
    ("model", _operation("chat")),
    ("tool", _operation("execute_tool")),
    ("append", _rpc("LeaseService/Append")),
    ("command", lambda span: span.name == "sandboxd exec"),
    ("exec", lambda span: span.name.endswith(("SandboxService/Exec", "SandboxService/Attach"))),
    ("clean-up", _rpc("SandboxService/EndTurn")),
    ("sandbox", lambda span: span.service.startswith("herma-tool-sandbox")),
    ("memory", lambda span: span.service == "herma-memory"),
    ("session-authority", lambda span: span.service == "herma-session-authority"),
)
