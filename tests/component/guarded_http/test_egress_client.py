"""The guarded client as the operator set it up, and what it leaves behind."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.component.guarded_http.certificates import Certificates
from tests.component.guarded_http.names import LOOPBACK, Names
from tests.component.guarded_http.raw_server import raw_server, says

from herma.common.errors import HermaError
from herma.common.guarded_http import (
    AddressPolicy,
    Credential,
    GuardedClient,
    PeerUntrusted,
    UrlRefused,
    egress_client,
)
from herma.common.guarded_http.target import parse_target
from herma.common.settings import EgressSettings


async def test_the_operators_authority_is_trusted_besides_the_machines(tmp_path: Path) -> None:
    certificates = Certificates()
    authority = tmp_path / "authority.pem"
    certificates.authority.cert_pem.write_to_path(str(authority))
    opened = (ipaddress.ip_network("127.0.0.0/8"),)
    tls = certificates.server("127.0.0.1")
    async with raw_server(says("200 OK"), tls=tls) as server:
        url = server.url(scheme="https")
        trusting = EgressSettings(egress_allowed_networks=opened, egress_ca_file=authority)
        async with egress_client(trusting) as client:
            assert (await client.request("GET", url)).status == 200
        async with egress_client(EgressSettings(egress_allowed_networks=opened)) as client:
            with pytest.raises(PeerUntrusted):
                await client.request("GET", url)


async def test_the_operators_word_counts() -> None:
    opened = (ipaddress.ip_network("127.0.0.0/8"),)
    async with raw_server(says("200 OK")) as server:
        for settings in (
            EgressSettings(),
            EgressSettings(egress_allowed_networks=opened, egress_denied_networks=opened),
            EgressSettings(egress_allowed_networks=opened, egress_ports="443"),
        ):
            async with egress_client(settings, plain_anywhere=True) as client:
                with pytest.raises(UrlRefused):
                    await client.request("GET", server.url())
        assert server.asked == []


class Telemetry:
    """What is recorded while a test runs."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self._reader])

    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def samples(self) -> list[dict[str, Any]]:
        """Attributes of the samples of durations."""
        data = self._reader.get_metrics_data()
        return [
            dict(point.attributes or {})
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == "http.client.request.duration"
            for point in metric.data.data_points
        ]

    def everything(self) -> str:
        """As an exporter would write it."""
        return "".join(span.to_json() for span in self.spans()) + json.dumps(self.samples())


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    """Instead of the process's own, which can be set only once."""
    recorded = Telemetry()
    monkeypatch.setattr(trace, "get_tracer", recorded.tracers.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", recorded.meters.get_meter)
    yield recorded
    recorded.tracers.shutdown()
    recorded.meters.shutdown()


async def test_each_hop_is_a_span_without_what_may_be_secret(telemetry: Telemetry) -> None:
    names = Names(other_example=["127.0.0.1"])

    async def answer(head: str) -> Any:
        onward = f"http://other.example:{server.port}/s3cret-too?s3cret=1" if "/first" in head else ""
        async for data in (says("302 F", Location=onward) if onward else says("404 N", b"s3cret"))(head):
            yield data

    async with raw_server(answer) as server, GuardedClient(LOOPBACK, names) as client:
        url = server.url("/first/s3cret?token=s3cret#s3cret")
        credential = Credential(parse_target(url).origin, "authorization", "Bearer s3cret")
        reply = await client.request(
            "GET", url, headers={"x-key": "s3cret"}, credential=credential, redirects=1
        )
        assert reply.status == 404
        port = server.port
    first, second = telemetry.spans()
    common = {"http.request.method": "GET", "url.scheme": "http", "server.port": port}
    assert dict(first.attributes or {}) == {
        **common,
        "server.address": "127.0.0.1",
        "url.full": f"http://127.0.0.1:{port}/REDACTED",
        "http.response.status_code": 302,
    }
    assert dict(second.attributes or {}) == {
        **common,
        "server.address": "other.example",
        "url.full": f"http://other.example:{port}/REDACTED",
        "http.response.status_code": 404,
        "http.request.resend_count": 1,
        "error.type": "404",
    }
    assert (first.name, first.kind) == ("GET", SpanKind.CLIENT)
    assert (first.status.status_code, second.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert "s3cret" not in telemetry.everything()
    # The other side learns nothing of the trace.
    assert not any("traceparent" in head.lower() for head in server.asked)


async def test_the_metric_has_no_series_for_each_host(telemetry: Telemetry) -> None:
    names = Names(**{f"host{number}_example": ["127.0.0.1"] for number in range(5)})
    async with raw_server(says("200 OK")) as server, GuardedClient(LOOPBACK, names) as client:
        for number in range(5):
            await client.request("GET", server.url(host=f"host{number}.example"))
        with pytest.raises(UrlRefused):
            await client.request("GET", "http://169.254.169.254/")
    assert telemetry.samples() == [
        {"http.request.method": "GET", "url.scheme": "http", "http.response.status_code": 200},
        {"http.request.method": "GET", "url.scheme": "http", "error.type": "URL_REFUSED"},
    ]


async def test_failures_are_named(telemetry: Telemetry) -> None:
    async def silence(_head: str) -> Any:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
        while True:
            yield b""
            await asyncio.sleep(0.05)

    async with raw_server(silence) as server, GuardedClient(LOOPBACK) as client:
        for limits in ({"timeout": 0.2}, {"silence": 0.2}):
            with pytest.raises(HermaError):
                await client.request("GET", server.url(), **limits)
    for span in telemetry.spans():
        assert dict(span.attributes or {})["error.type"] == "PEER_TIMEOUT"
        assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    ("url", "redirects", "logged"),
    [
        ("file:///etc/s3cret", 0, "a URL was refused"),
        ("https://u:s3cret@example.com/", 0, "a URL was refused"),
        ("https://inside.example/s3cret?s3cret", 0, "a host was refused"),
        ("https://nowhere.example/s3cret?s3cret", 0, "a host does not resolve"),
        ("https://inside.example:22/s3cret", 0, "a port was refused"),
    ],
)
async def test_a_refusal_is_logged_without_what_may_be_secret(
    url: str, redirects: int, logged: str
) -> None:
    names = Names(inside_example=["10.0.0.7"])
    async with GuardedClient(AddressPolicy(), names) as client:
        with structlog.testing.capture_logs() as lines, pytest.raises(UrlRefused) as caught:
            await client.request("GET", url, redirects=redirects)
    (line,) = lines
    assert line["event"] == logged
    assert "s3cret" not in json.dumps(line)
    # The operator's log says which address it was; the tenant is not told.
    assert ("10.0.0.7" in json.dumps(line)) == (logged == "a host was refused")
    assert "10.0.0.7" not in caught.value.message


async def test_a_refused_redirect_is_logged() -> None:
    answer = says("302 Found", Location="file:///etc/s3cret")
    async with raw_server(answer) as server, GuardedClient(LOOPBACK) as client:
        with structlog.testing.capture_logs() as lines, pytest.raises(UrlRefused):
            await client.request("GET", server.url(), redirects=1)
    assert [line["event"] for line in lines] == ["a redirect was refused"]
    assert "s3cret" not in json.dumps(lines)
