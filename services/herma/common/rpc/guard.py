"""What happens around every RPC that is served: identity, deadline, trace, errors, in this order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from herma.common import telemetry
from herma.common.errors import (
    HermaError,
    Internal,
    InvalidArgument,
    Kind,
    PermissionDenied,
)
from herma.common.logs import logger
from herma.common.rpc.caller import CallingService, set_caller
from herma.common.rpc.durations import CallDurations
from herma.common.rpc.identity import SERVICE_KEY, ServiceIdentity
from herma.common.rpc.status import code_of, to_status
from herma.common.turn_token import TURN_TOKEN_KEY

_log = logger(__name__)

# Answered without an identity: liveness probes have none, and they tell nothing.
_OPEN = ("/grpc.health.v1.Health/", "/grpc.reflection.")


if TYPE_CHECKING:
    _Base = grpc.aio.ServerInterceptor[Any, Any]
else:
    _Base = grpc.aio.ServerInterceptor


class GuardInterceptor(_Base):
    """Guards the handlers of one server.

    Args:
        identity: Of this service.
        callers: For each full gRPC service name, the services that may call it.
        untraced: Methods (full names) without a span of their own, such as long polls.
    """

    def __init__(
        self,
        identity: ServiceIdentity,
        callers: Mapping[str, frozenset[str]],
        untraced: frozenset[str] = frozenset(),
    ) -> None:
        self._identity = identity
        self._callers = callers
        self._untraced = untraced
        self._tracer = trace.get_tracer("herma.rpc")
        self._durations = CallDurations()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Wraps the handler of one call."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(_OPEN):  # type: ignore[redundant-expr]  # None: unknown method
            return handler
        metadata = {
            key: value
            for key, value in handler_call_details.invocation_metadata
            if isinstance(value, str)
        }
        return self._wrap(handler, method, metadata)

    def _wrap(
        self, handler: grpc.RpcMethodHandler[Any, Any], method: str, metadata: Mapping[str, str]
    ) -> grpc.RpcMethodHandler[Any, Any]:
        inner: Any
        if handler.response_streaming:
            inner = handler.stream_stream if handler.request_streaming else handler.unary_stream

            async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
                async with self._around(method, metadata, context):
                    async for response in inner(request, context):
                        yield response

            make = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
            return make(stream, handler.request_deserializer, handler.response_serializer)

        inner = handler.stream_unary if handler.request_streaming else handler.unary_unary

        async def unary(request: Any, context: Any) -> Any:
            async with self._around(method, metadata, context):
                return await inner(request, context)

        make = (
            grpc.stream_unary_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        return make(unary, handler.request_deserializer, handler.response_serializer)

    @asynccontextmanager
    async def _around(
        self, method: str, metadata: Mapping[str, str], context: Any
    ) -> AsyncIterator[None]:
        refusal: HermaError | None = None
        with self._durations.of(method) as served, self._span(method, metadata) as span:
            try:
                self._admit(method, metadata, context)
                yield
                served.status = "OK"
                return
            except HermaError as error:
                refusal = error
            except (asyncio.CancelledError, GeneratorExit, grpc.aio.AbortError):
                raise
            except Exception as error:  # noqa: BLE001  # the one place that catches all
                _log.exception("an RPC failed unexpectedly", rpc=method)
                refusal = Internal("internal error; see the service's log")
                refusal.__cause__ = error
            served.status = code_of(refusal).name
            span.set_attribute("error.type", refusal.reason)
            if refusal.kind in (Kind.INTERNAL, Kind.UNAVAILABLE):
                span.set_status(Status(StatusCode.ERROR, refusal.reason))
        await context.abort_with_status(to_status(refusal))

    def _admit(self, method: str, metadata: Mapping[str, str], context: Any) -> None:
        caller = self._identity.check(metadata.get(SERVICE_KEY, ""), method)
        service = method.rpartition("/")[0].lstrip("/")
        if caller not in self._callers.get(service, frozenset()):
            raise PermissionDenied(f"{caller} may not call {service}")
        if context.time_remaining() is None:
            raise InvalidArgument("the call has no deadline", reason="DEADLINE_REQUIRED")
        set_caller(CallingService(caller, metadata.get(TURN_TOKEN_KEY, "")))

    def _span(self, method: str, metadata: Mapping[str, str]) -> Any:
        parent = telemetry.context_from(metadata.get("traceparent", ""))
        if method in self._untraced or not trace.get_current_span(parent).get_span_context().is_valid:
            # Work that no trace asked for (polls, renewals, sweeps) starts none.
            return trace.use_span(trace.INVALID_SPAN)
        return self._tracer.start_as_current_span(
            method.lstrip("/"),
            context=parent,
            kind=SpanKind.SERVER,
            attributes={"rpc.system.name": "grpc", "rpc.method": method.lstrip("/")},
            record_exception=False,
            set_status_on_exception=False,
        )
