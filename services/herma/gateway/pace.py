"""How often things happen on a stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """In seconds.

    `heartbeat`: a comment that keeps proxies from closing an idle stream.  `recheck`: the longest that a
    stream outlives its client's rights.  `backoff` to `backoff_most`: between subscriptions that fail.
    """

    heartbeat: float = 15.0
    recheck: float = 25.0
    backoff: float = 0.1
    backoff_most: float = 2.0
