"""A turn's trace starts here: one server span per request of the API."""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from herma.common import telemetry

# Probes and scrapes are not worth a trace; streams outlive what a span can show.
_UNTRACED = ("/healthz", "/readyz", "/metrics", "/openapi.json")


class ServerSpans:
    """ASGI middleware."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._tracer = trace.get_tracer("herma.gateway")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] in _UNTRACED or scope["path"].endswith("/events"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        parent = telemetry.context_from(headers.get(b"traceparent", b"").decode("latin-1"))
        with self._tracer.start_as_current_span(
            scope["method"],
            context=parent,
            kind=SpanKind.SERVER,
            attributes={"http.request.method": scope["method"], "url.scheme": scope["scheme"]},
        ) as span:

            async def watch(message: Any) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    span.set_attribute("http.response.status_code", status)
                    if status >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            await self._app(scope, receive, watch)
            route = getattr(scope.get("route"), "path", None)
            if route:
                span.set_attribute("http.route", route)
                span.update_name(f"{scope['method']} {route}")
