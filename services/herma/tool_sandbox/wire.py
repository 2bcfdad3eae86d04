"""What sandboxd says, checked, in the shape that runners get.  It is untrusted: sizes, times, paths and
numbers are validated, and an answer that cannot be true is refused."""

from __future__ import annotations

import time

import grpc
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from herma.api.sandbox.v1 import sandbox_pb2
from herma.api.sandboxd.v1 import sandboxd_pb2
from herma.common.errors import (
    HermaError,
    InvalidArgument,
    LeaseLost,
    NotFound,
    ResourceExhausted,
    SandboxLost,
    SandboxUnavailable,
)

_MAX_PIECE = 1024 * 1024
_MAX_KEPT = 1_000_000
_MAX_PID = 1 << 22


class SandboxLied(SandboxUnavailable):
    """The sandbox answered what cannot be true."""


def error_of(failure: grpc.aio.AioRpcError) -> HermaError:
    """sandboxd's refusal as ours; its text is shown to the model at most 300 characters long."""
    details = (failure.details() or "")[:300]
    code = failure.code()
    if code is grpc.StatusCode.FAILED_PRECONDITION:
        return LeaseLost()
    if code is grpc.StatusCode.ABORTED:
        return SandboxLost("the outcome of this call is no longer kept")
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidArgument(details)
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFound(details)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return ResourceExhausted(details)
    return SandboxUnavailable("the sandbox does not answer", retry_after=0.2)


def event_of(event: sandboxd_pb2.CommandEvent) -> sandbox_pb2.CommandEvent:
    """One event of a command.

    Raises:
        SandboxLied: when it cannot be true.
    """
    kind = event.WhichOneof("kind")
    if kind == "started" and 0 < event.started.pid < _MAX_PID:
        return sandbox_pb2.CommandEvent(started=sandbox_pb2.CommandStarted(pid=event.started.pid))
    if kind == "output" and len(event.output.data) <= _MAX_PIECE:
        return sandbox_pb2.CommandEvent(
            output=sandbox_pb2.CommandOutput(data=event.output.data, is_stderr=event.output.is_stderr)
        )
    if kind == "never_seen":
        return sandbox_pb2.CommandEvent(never_seen=sandbox_pb2.NeverSeen())
    if kind == "exited":
        return sandbox_pb2.CommandEvent(exited=_exited(event.exited))
    raise SandboxLied("the sandbox sent an event that cannot be true")


def _exited(said: sandboxd_pb2.CommandExited) -> sandbox_pb2.CommandExited:
    kept = len(said.head) + len(said.tail)
    now = time.time_ns()
    if not (
        -1 <= said.exit_code <= 255
        and 0 <= said.signal <= 64
        and kept <= _MAX_KEPT
        and kept <= said.total_bytes
        and 0 < said.pid < _MAX_PID
        and len(said.spill_path) <= 4096
        and 0 < said.started_unix_nanos <= said.ended_unix_nanos <= now + 60_000_000_000
    ):
        raise SandboxLied("the sandbox sent an outcome that cannot be true")
    return sandbox_pb2.CommandExited(
        exit_code=said.exit_code,
        signal=said.signal,
        timed_out=said.timed_out,
        head=said.head,
        tail=said.tail,
        total_bytes=said.total_bytes,
        spill_path=said.spill_path,
        pid=said.pid,
        started_unix_nanos=said.started_unix_nanos,
        ended_unix_nanos=said.ended_unix_nanos,
    )


def record_span(exited: sandbox_pb2.CommandExited, call_id: str, sandbox_id: str) -> None:
    """The command as a span of the current trace: sandboxd itself exports nothing."""
    span = trace.get_tracer("herma.sandboxd").start_span(
        "sandboxd exec",
        kind=SpanKind.INTERNAL,
        start_time=exited.started_unix_nanos,
        attributes={
            "process.pid": exited.pid,
            "process.exit.code": exited.exit_code,
            "herma.call.id": call_id,
            "herma.sandbox.id": sandbox_id,
        },
    )
    span.end(exited.ended_unix_nanos)
