"""One turn without tools as a sequence of hops that leave no time out.

The hops are cut by the client's own clock and by the turn's spans: where one ends the next begins, so
their sum is the turn.  A turn that is not of this shape (a retry, a tool) has no hops.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

_APPEND = "herma.api.lease.v1.LeaseService/Append"
HOPS = (
    "client → gateway",
    "gateway, until it calls `Submit`",
    "`Submit` (session-authority)",
    "`Submit` done → runner has the turn (bell, claim, reply)",
    "runner, until the first append is there",
    "`Append` 1: the message begins (session-authority)",
    "append done → model is asked",
    "model call (`chat`)",
    "model done → the second append is there",
    "`Append` 2: the answer and the turn's end (session-authority)",
    "append done → client has `turn.ended` (bell, read, SSE)",
)
MODEL = HOPS.index("model call (`chat`)")


def hops_of(sent: int, received: int, spans: Sequence[dict[str, Any]]) -> list[float] | None:
    """The lengths of the hops in milliseconds; None if the turn is of another shape.

    Args:
        sent: When the client sent the message (Unix nanoseconds).
        received: When it had read `turn.ended`.
        spans: The turn's trace, as the span file has it.
    """
    post = _only(spans, lambda name: name.startswith("POST "))
    submit = _only(spans, lambda name: name.endswith("SessionService/Submit"))
    agent = _only(spans, lambda name: name.startswith("invoke_agent"))
    chat = _only(spans, lambda name: name.startswith("chat "))
    appends = sorted((s for s in spans if s["name"] == _APPEND), key=lambda span: span["start"])
    if post is None or submit is None or agent is None or chat is None or len(appends) != 2:
        return None
    first, second = appends
    cuts = [
        sent,
        post["start"],
        submit["start"],
        submit["end"],
        agent["start"],
        first["start"],
        first["end"],
        chat["start"],
        chat["end"],
        second["start"],
        second["end"],
        received,
    ]
    return [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(cuts)]


def _only(spans: Sequence[dict[str, Any]], fits: Any) -> dict[str, Any] | None:
    found = [span for span in spans if fits(span["name"])]
    return found[0] if len(found) == 1 else None
