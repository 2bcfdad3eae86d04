"""An OTLP receiver: a real gRPC server for the collector's protocol (opentelemetry-proto)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it was received."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    service: str


class OtlpReceiver:
    """Collects spans and names of metrics; use it as a context manager."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: set[str] = set()
        self._server = grpc.server(ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(self), self._server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self), self._server)
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def trace(self, trace_id: str) -> list[Span]:
        """The spans of one trace."""
        return [span for span in list(self.spans) if span.trace_id == trace_id]

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
            service = _attributes(group.resource.attributes).get("service.name", "")
            for scope in group.scope_spans:
                for span in scope.spans:
                    self._receiver.spans.append(
                        Span(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            _attributes(span.attributes),
                            service,
                        )
                    )
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:
        for group in request.resource_metrics:
            for scope in group.scope_metrics:
                self._receiver.metrics.update(metric.name for metric in scope.metrics)
        return metrics_service_pb2.ExportMetricsServiceResponse()


def _attributes(pairs: Any) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind) if kind else None
        if kind == "array_value":
            value = [getattr(item, item.WhichOneof("value")) for item in value.values]
        found[pair.key] = value
    return found
