"""What OpenTelemetry's own exporters send arrives whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from tests.support.otlp_receiver import OtlpReceiver

RESOURCE = Resource({"service.name": "runner", "service.instance.id": "r1"})


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as found:
        yield found


@pytest.fixture(scope="module")
def tracer(receiver: OtlpReceiver) -> Iterator[trace.Tracer]:
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(receiver.endpoint, insecure=True)))
    yield provider.get_tracer("tests")
    provider.shutdown()


async def test_spans_arrive_with_all_that_they_say(receiver: OtlpReceiver, tracer: trace.Tracer) -> None:
    with tracer.start_as_current_span("linked") as linked:
        pass
    with (
        tracer.start_as_current_span(
            "chat m",
            kind=trace.SpanKind.CLIENT,
            attributes={"a": 1, "b": True, "c": "s", "d": ["x", "y"], "e": 0.5},
            links=[trace.Link(linked.get_span_context(), {"why": "cause"})],
        ) as span,
    ):
        span.add_event("first", {"n": 1})
        span.set_status(trace.StatusCode.ERROR, "no")
    found = await receiver.wait_for("chat m", 10)
    assert found.attributes == {"a": 1, "b": True, "c": "s", "d": ["x", "y"], "e": 0.5}
    assert (found.kind, found.status, found.status_message) == ("CLIENT", "ERROR", "no")
    assert found.trace_id == f"{span.get_span_context().trace_id:032x}"
    assert found.links == (
        (f"{linked.get_span_context().trace_id:032x}", found.links[0][1], {"why": "cause"}),
    )
    assert found.events == (("first", {"n": 1}),)
    assert (found.service, found.resource["service.instance.id"]) == ("runner", "r1")
    assert (found.scope, found.parent_id) == ("tests", "")
    assert 0 < found.start <= found.end


async def test_a_trace_is_a_tree(receiver: OtlpReceiver, tracer: trace.Tracer) -> None:
    with tracer.start_as_current_span("root") as root:
        with tracer.start_as_current_span("one"), tracer.start_as_current_span("deep"):
            pass
        with tracer.start_as_current_span("two"):
            pass
    trace_id = (await receiver.wait_for(lambda span: span.name == "root", 10)).trace_id
    assert trace_id == f"{root.get_span_context().trace_id:032x}"
    (node,) = receiver.tree(trace_id)
    assert node.lines() == ["runner: root", "  runner: one", "    runner: deep", "  runner: two"]
    assert {span.name for span in receiver.traces()[trace_id]} == {"root", "one", "deep", "two"}
    assert receiver.tree("0" * 32) == []
    with pytest.raises(AssertionError, match="a span arrives: never"):
        await receiver.wait_for("never", 0.05)


def test_metrics_arrive(receiver: OtlpReceiver) -> None:
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(receiver.endpoint, insecure=True))
    provider = MeterProvider(resource=RESOURCE, metric_readers=[reader])
    meter = provider.get_meter("tests")
    meter.create_counter("turns", unit="{turn}").add(3, {"state": "completed"})
    meter.create_histogram("duration", unit="s").record(1.5)
    provider.shutdown()
    found = {metric.name: metric for metric in receiver.metrics}
    (point,) = found["turns"].points
    assert (point.attributes, point.value, found["turns"].unit) == ({"state": "completed"}, 3, "{turn}")
    (point,) = found["duration"].points
    assert (point.value, point.count) == (1.5, 1)


def test_logs_arrive(receiver: OtlpReceiver) -> None:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.body.string_value = "hello"
    record.severity_text = logging.getLevelName(logging.INFO)
    record.trace_id = bytes(16)
    with grpc.insecure_channel(receiver.endpoint.removeprefix("http://")) as channel:
        stub = LogsServiceStub(channel)  # type: ignore[no-untyped-call]
        stub.Export(request, timeout=10)
    assert [(log.body, log.severity, log.trace_id) for log in receiver.logs] == [
        ("hello", "INFO", "0" * 32)
    ]
