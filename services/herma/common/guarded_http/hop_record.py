"""What is kept of each request: a span, and a sample of its duration.

Source: OpenTelemetry's semantic conventions for HTTP clients, with two differences.  Paths and queries of
others may hold secrets (many webhook URLs are one), so `url.full` has neither.  The metric does not have
`server.address`: tenants name hosts, and each would be a series of its own for good.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from herma.common.guarded_http.failures import PeerFailure
from herma.common.guarded_http.step import Step
from herma.common.guarded_http.target import UrlRefused

# As the conventions advise, in seconds.
_BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


@dataclass(slots=True)
class Hop:
    """How a request went: its status once there is one, else what it failed of."""

    status: int = 0
    error: str = ""

    @property
    def outcome(self) -> dict[str, str | int]:
        """As attributes."""
        known: dict[str, str | int] = {}
        if self.status:
            known["http.response.status_code"] = self.status
        if self.error or self.status >= 400:
            known["error.type"] = self.error or str(self.status)
        return known


class HopRecords:
    """Records requests."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("herma.guarded_http")
        self._durations = metrics.get_meter("herma.guarded_http").create_histogram(
            "http.client.request.duration",
            unit="s",
            description="Duration of requests to URLs of tenants, answers read included.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )

    @contextmanager
    def of(self, step: Step, deadline: asyncio.Timeout) -> Iterator[Hop]:
        """Records one request when the block ends, however it does.

        Args:
            deadline: Whether it was this that ended it.
        """
        origin = step.target.origin
        hop = Hop()
        began = time.perf_counter()
        about = {"http.request.method": step.method, "url.scheme": origin.scheme}
        with self._tracer.start_as_current_span(
            step.method,
            kind=SpanKind.CLIENT,
            attributes={
                **about,
                "server.address": origin.host,
                "server.port": origin.port,
                "url.full": f"{origin}/REDACTED",
                **({"http.request.resend_count": step.number} if step.number else {}),
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield hop
            except (PeerFailure, UrlRefused) as error:
                hop.error = error.reason
                raise
            except asyncio.CancelledError:
                hop.error = "PEER_TIMEOUT" if deadline.expired() else "CANCELLED"
                raise
            finally:
                outcome = hop.outcome
                span.set_attributes(outcome)
                if "error.type" in outcome:
                    span.set_status(Status(StatusCode.ERROR))
                self._durations.record(time.perf_counter() - began, {**about, **outcome})
