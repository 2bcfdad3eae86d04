"""A turn's trace starts here: one server span per request of the API (OpenTelemetry HTTP semconv)."""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from herma.common import telemetry

# Probes and scrapes are not worth a trace; streams outlive what a span can show.
_UNTRACED = ("/healthz", "/readyz", "/metrics", "/openapi.json")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"})


class ServerSpans:
    """ASGI middleware."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._tracer = trace.get_tracer("herma.gateway")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serves one request under a span, which the route names once it is known."""
        if scope["type"] != "http" or scope["path"] in _UNTRACED or scope["path"].endswith("/events"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with self._tracer.start_as_current_span(
            "HTTP" if method == "_OTHER" else method,
            context=telemetry.context_from(headers.get(b"traceparent", b"").decode("latin-1")),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "url.scheme": scope["scheme"]},
            # An exception's text may quote content.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            async def watch(message: Any) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    span.set_attribute("http.response.status_code", status)
                    if status >= 500:
                        span.set_attribute("error.type", str(status))
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            try:
                await self._app(scope, receive, watch)
            except Exception as error:
                # The answer is made further out, where this span does not see it.
                span.set_attribute("http.response.status_code", 500)
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(Status(StatusCode.ERROR))
                raise
            finally:
                route = getattr(scope.get("route"), "path", None)
                if route:
                    span.set_attribute("http.route", route)
                    span.update_name(f"{method} {route}")
