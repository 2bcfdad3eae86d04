"""How many RPCs are served, and how long they take (OpenTelemetry RPC semantic conventions)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry import metrics

# As the conventions advise, in seconds.
_BOUNDARIES = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


@dataclass(slots=True)
class ServedCall:
    """How a call ended: the name of its gRPC status, `CANCELLED` when nothing else is said."""

    status: str = "CANCELLED"


class CallDurations:
    """Records `rpc.server.call.duration`, streams and long polls included: its count counts calls."""

    def __init__(self) -> None:
        self._histogram = metrics.get_meter("herma.rpc").create_histogram(
            "rpc.server.call.duration",
            unit="s",
            description="Duration of calls that were served.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )

    @contextmanager
    def of(self, method: str) -> Iterator[ServedCall]:
        """Records one call (`/package.Service/Method`) when the block ends, however it does."""
        began = time.perf_counter()
        call = ServedCall()
        try:
            yield call
        finally:
            self._histogram.record(
                time.perf_counter() - began,
                {
                    "rpc.system.name": "grpc",
                    "rpc.method": method.lstrip("/"),
                    "rpc.status_code": call.status,
                },
            )
