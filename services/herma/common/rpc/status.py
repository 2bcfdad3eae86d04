"""The error tree as gRPC status: code, `ErrorInfo` (reason, domain `herma`), `BadRequest`, `RetryInfo`.

Model: google.rpc error details, as in the `googleapis-common-protos` package.
"""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from herma.common.errors import HermaError, Kind, error_for

_DOMAIN = "herma"

_CODE: dict[Kind, grpc.StatusCode] = {
    Kind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Kind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Kind.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Kind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Kind.CONFLICT: grpc.StatusCode.ALREADY_EXISTS,
    Kind.PRECONDITION: grpc.StatusCode.FAILED_PRECONDITION,
    Kind.STALE: grpc.StatusCode.ABORTED,
    Kind.OUT_OF_RANGE: grpc.StatusCode.OUT_OF_RANGE,
    Kind.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Kind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Kind.DEADLINE: grpc.StatusCode.DEADLINE_EXCEEDED,
    Kind.CANCELLED: grpc.StatusCode.CANCELLED,
    Kind.INTERNAL: grpc.StatusCode.INTERNAL,
}
_KIND = {code: kind for kind, code in _CODE.items()}


def code_of(error: HermaError) -> grpc.StatusCode:
    """The status code that an error becomes."""
    return _CODE[error.kind]


def to_status(error: HermaError) -> grpc.Status:
    """What `context.abort_with_status` takes."""
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=_DOMAIN, metadata=dict(error.metadata))
    details = [_packed(info)]
    if error.fields:
        details.append(
            _packed(
                error_details_pb2.BadRequest(
                    field_violations=[
                        error_details_pb2.BadRequest.FieldViolation(field=name, description=text)
                        for name, text in error.fields.items()
                    ]
                )
            )
        )
    if error.retry_after is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(int(error.retry_after * 1000))
        details.append(_packed(retry))
    code = code_pb2.Code.Value(code_of(error).name)
    message = status_pb2.Status(code=code, message=error.message, details=details)
    status: grpc.Status = rpc_status.to_status(message)
    return status


def from_rpc_error(failure: grpc.aio.AioRpcError) -> HermaError:
    """The error that the peer raised, or the nearest one for a failure of the transport."""
    kind = _KIND.get(failure.code(), Kind.INTERNAL)
    message = failure.details() or failure.code().name
    reason, fields, metadata, retry_after = "", {}, {}, None
    for detail in _details(failure):
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            if info.domain == _DOMAIN:
                reason, metadata = info.reason, dict(info.metadata)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            fields = {item.field: item.description for item in bad.field_violations}
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_after = retry.retry_delay.ToMilliseconds() / 1000
    error = error_for(kind, reason, message)
    error.fields, error.metadata, error.retry_after = fields, metadata, retry_after
    return error


def _packed(message: object) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)  # type: ignore[arg-type]  # any message of google.rpc
    return packed


def _details(failure: grpc.aio.AioRpcError) -> list[any_pb2.Any]:
    trailing: Iterable[tuple[str, str | bytes]] = failure.trailing_metadata() or ()  # type: ignore[assignment]  # the stubs' metadata does not iterate
    for key, value in trailing:
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            try:
                return list(status_pb2.Status.FromString(value).details)
            except ValueError:
                return []
    return []
