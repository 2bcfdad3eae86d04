"""The error tree as RFC 9457 problem details, for HTTP."""

from __future__ import annotations

import math
from typing import Any

from herma.common.errors import HermaError, Kind

PROBLEM_MEDIA_TYPE = "application/problem+json"

_STATUS: dict[Kind, int] = {
    Kind.INVALID: 400,
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.PRECONDITION: 409,
    Kind.STALE: 412,
    Kind.OUT_OF_RANGE: 400,
    Kind.EXHAUSTED: 429,
    Kind.UNAVAILABLE: 503,
    Kind.DEADLINE: 504,
    Kind.CANCELLED: 499,
    Kind.INTERNAL: 500,
}

_TITLE: dict[int, str] = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    409: "Conflict",
    412: "Precondition failed",
    429: "Too many requests",
    499: "Client closed request",
    500: "Internal error",
    503: "Unavailable",
    504: "Timed out",
}


def status_of(error: HermaError) -> int:
    """The HTTP status of an error."""
    return _STATUS[error.kind]


def problem(error: HermaError) -> dict[str, Any]:
    """The problem document: `type`, `title`, `status`, `detail`, `reason`, and `errors` per field."""
    status = status_of(error)
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLE[status],
        "status": status,
        "detail": error.message,
        "reason": error.reason,
    }
    if error.fields:
        body["errors"] = [{"field": name, "detail": text} for name, text in error.fields.items()]
    return body


def headers_of(error: HermaError) -> dict[str, str]:
    """Headers that go with the document."""
    headers: dict[str, str] = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if error.kind is Kind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return headers
