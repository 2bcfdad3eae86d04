"""An OTLP receiver: a real gRPC server for the collector's protocol.

Source: opentelemetry-proto, `opentelemetry.proto.collector.{trace,metrics,logs}.v1`, and OTLP
specification 1.x, "OTLP/gRPC".

It serves in threads, so that one receiver outlives the loops of single tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it was received.  Ids are lower-case hex, empty if absent; times are Unix nanoseconds.

    Attributes:
        kind: `INTERNAL`, `SERVER`, `CLIENT`, `PRODUCER` or `CONSUMER`.
        status: `UNSET`, `OK` or `ERROR`.
        links: (trace id, span id, attributes) of each.
        events: (name, attributes) of each.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: str
    kind: str
    status: str
    status_message: str
    start: int
    end: int
    links: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    events: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def service(self) -> str:
        """The `service.name` of its resource."""
        return str(self.resource.get("service.name", ""))


@dataclass(frozen=True, slots=True)
class Point:
    """A metric's data point: its sum, gauge value, or a histogram's sum, with the count of samples."""

    attributes: dict[str, Any]
    value: float
    count: int


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as it was received in one export."""

    name: str
    unit: str
    points: tuple[Point, ...]
    resource: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Log:
    """A log record as it was received."""

    body: Any
    severity: str
    attributes: dict[str, Any]
    trace_id: str
    span_id: str
    resource: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Node:
    """A span with the spans under it, in the order of their beginnings."""

    span: Span
    children: list[Node] = field(default_factory=list)

    def lines(self, indent: str = "") -> list[str]:
        """The tree as indented `service: name` lines, for a failed test."""
        below = [line for child in self.children for line in child.lines(indent + "  ")]
        return [f"{indent}{self.span.service}: {self.span.name}", *below]


class OtlpReceiver:
    """Collects spans, metrics and logs; use it as a context manager."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: list[Metric] = []
        self.logs: list[Log] = []
        self._server = grpc.server(ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(self), self._server)  # type: ignore[no-untyped-call]
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self), self._server)  # type: ignore[no-untyped-call]
        logs_service_pb2_grpc.add_LogsServiceServicer_to_server(_Logs(self), self._server)  # type: ignore[no-untyped-call]
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def trace(self, trace_id: str) -> list[Span]:
        """The spans of one trace, in the order in which they came."""
        return [span for span in list(self.spans) if span.trace_id == trace_id]

    def traces(self) -> dict[str, list[Span]]:
        """All spans by trace id."""
        found: dict[str, list[Span]] = {}
        for span in list(self.spans):
            found.setdefault(span.trace_id, []).append(span)
        return found

    def tree(self, trace_id: str) -> list[Node]:
        """The roots of one trace: one, if all of it came and it is whole.

        A span whose parent did not come is a root.
        """
        spans = sorted(self.trace(trace_id), key=lambda span: span.start)
        nodes = {span.span_id: Node(span) for span in spans}
        roots: list[Node] = []
        for span in spans:
            parent = nodes.get(span.parent_id)
            (roots if parent is None else parent.children).append(nodes[span.span_id])
        return roots

    async def wait_for(self, wanted: str | Callable[[Span], bool], timeout: float = 30.0) -> Span:
        """The first span, past or to come, that fits, or has this name.

        Raises:
            AssertionError: when none came in time.
        """

        def look() -> Span | None:
            for span in list(self.spans):
                if span.name == wanted if isinstance(wanted, str) else wanted(span):
                    return span
            return None

        return await eventually(look, f"a span arrives: {wanted}", timeout)

    def __enter__(self) -> OtlpReceiver:
        self._server.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.stop(0).wait()


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:
        for group in request.resource_spans:
            resource = _attributes(group.resource.attributes)
            for scope in group.scope_spans:
                self._receiver.spans.extend(_span(s, resource, scope.scope.name) for s in scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:
        for group in request.resource_metrics:
            resource = _attributes(group.resource.attributes)
            for scope in group.scope_metrics:
                for metric in scope.metrics:
                    found = Metric(metric.name, metric.unit, tuple(_points(metric)), resource)
                    self._receiver.metrics.append(found)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class _Logs(logs_service_pb2_grpc.LogsServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:
        for group in request.resource_logs:
            resource = _attributes(group.resource.attributes)
            for scope in group.scope_logs:
                for record in scope.log_records:
                    self._receiver.logs.append(
                        Log(
                            _value(record.body),
                            record.severity_text,
                            _attributes(record.attributes),
                            record.trace_id.hex(),
                            record.span_id.hex(),
                            resource,
                        )
                    )
        return logs_service_pb2.ExportLogsServiceResponse()


def _span(span: trace_pb2.Span, resource: dict[str, Any], scope: str) -> Span:
    return Span(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes=_attributes(span.attributes),
        resource=resource,
        scope=scope,
        kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        status=trace_pb2.Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        status_message=span.status.message,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        links=tuple((x.trace_id.hex(), x.span_id.hex(), _attributes(x.attributes)) for x in span.links),
        events=tuple((event.name, _attributes(event.attributes)) for event in span.events),
    )


def _points(metric: Any) -> Iterable[Point]:
    kind = metric.WhichOneof("data")
    for point in getattr(metric, kind).data_points if kind else ():
        attributes = _attributes(point.attributes)
        if hasattr(point, "sum"):
            yield Point(attributes, point.sum, point.count)
        else:
            yield Point(attributes, float(getattr(point, point.WhichOneof("value") or "as_double")), 1)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    found = getattr(value, kind)
    if kind == "array_value":
        return [_value(item) for item in found.values]
    return _attributes(found.values) if kind == "kvlist_value" else found
