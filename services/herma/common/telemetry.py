"""Traces and metrics: OpenTelemetry, exported by OTLP, to a file, and to Prometheus.

No message content is ever put on a span here or by callers, unless an operator switches it on.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import herma
from herma.common.settings import TelemetrySettings

_PROPAGATOR = TraceContextTextMapPropagator()


class Telemetry:
    """Owns this process's tracer and meter providers; `close` flushes them."""

    def __init__(self, service: str, settings: TelemetrySettings) -> None:
        resource = Resource.create(
            {
                "service.name": f"herma-{service}",
                "service.version": herma.__version__,
                "process.pid": os.getpid(),
            }
        )
        self._tracers = TracerProvider(resource=resource)
        readers: list[MetricReader] = [PrometheusMetricReader()]
        if settings.otlp_endpoint:
            insecure = not settings.otlp_endpoint.startswith("https://")
            self._tracers.add_span_processor(
                BatchSpanProcessor(
                    OTLPSpanExporter(endpoint=settings.otlp_endpoint, insecure=insecure),
                    schedule_delay_millis=500,
                )
            )
            readers.append(
                PeriodicExportingMetricReader(
                    OTLPMetricExporter(endpoint=settings.otlp_endpoint, insecure=insecure),
                    export_interval_millis=10_000,
                )
            )
        if settings.spans_file is not None:
            self._tracers.add_span_processor(
                BatchSpanProcessor(SpanFile(settings.spans_file), schedule_delay_millis=500)
            )
        self._meters = MeterProvider(resource=resource, metric_readers=readers)
        trace.set_tracer_provider(self._tracers)
        metrics.set_meter_provider(self._meters)

    def close(self) -> None:
        """Sends what is buffered and stops."""
        self._tracers.shutdown()
        self._meters.shutdown(timeout_millis=2_000)

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()


class SpanFile(SpanExporter):
    """Appends spans as JSON lines to a file that several processes share.

    One write per span with O_APPEND, so lines of different processes do not mix.  At `limit` bytes the
    file is moved aside to `<name>.1`.
    """

    def __init__(self, path: Path, limit: int = 64 * 1024 * 1024) -> None:
        self._path = path
        self._limit = limit
        self._lock = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Writes spans; a failure loses them and nothing else."""
        try:
            with self._lock:
                self._rotate()
                fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                try:
                    for span in spans:
                        os.write(fd, (json.dumps(span_record(span)) + "\n").encode())
                finally:
                    os.close(fd)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def _rotate(self) -> None:
        if self._path.exists() and self._path.stat().st_size > self._limit:
            self._path.replace(self._path.with_name(self._path.name + ".1"))


def span_record(span: ReadableSpan) -> dict[str, object]:
    """A span as a flat JSON object; times are Unix nanoseconds, ids hex."""
    context = span.get_span_context()
    parent = span.parent
    return {
        "trace_id": format(context.trace_id, "032x") if context else "",
        "span_id": format(context.span_id, "016x") if context else "",
        "parent_id": format(parent.span_id, "016x") if parent else None,
        "name": span.name,
        "kind": span.kind.name,
        "start": span.start_time,
        "end": span.end_time,
        "status": span.status.status_code.name,
        "service": span.resource.attributes.get("service.name"),
        "attributes": dict(span.attributes or {}),
        "links": [
            {
                "trace_id": format(link.context.trace_id, "032x"),
                "span_id": format(link.context.span_id, "016x"),
            }
            for link in span.links
        ],
    }


def traceparent() -> str:
    """The current span's W3C trace context, or an empty string."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get("traceparent", "")


def context_from(traceparent_text: str) -> Context:
    """The context that a W3C trace context names; an empty one for text that is none."""
    return _PROPAGATOR.extract({"traceparent": traceparent_text}, context=Context())


def link_to(traceparent_text: str) -> list[trace.Link]:
    """A link to the span that a W3C trace context names; none for text that is none."""
    linked = trace.get_current_span(context_from(traceparent_text)).get_span_context()
    return [trace.Link(linked)] if linked.is_valid else []
