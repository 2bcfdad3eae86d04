"""Every refusal as a problem document (RFC 9457) with a stable `reason`."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from herma.common.errors import HermaError, Internal, InvalidArgument, NotFound
from herma.common.logs import logger
from herma.common.problem import PROBLEM_MEDIA_TYPE, headers_of, problem, status_of

# A hostile body may have any number of unknown fields, with any names.
_MOST_FIELDS = 32
_MOST_NAME = 100

_log = logger(__name__)


def install(app: FastAPI) -> None:
    """Registers the handlers."""
    app.add_exception_handler(HermaError, _on_herma_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_unforeseen)


def response_of(error: HermaError) -> JSONResponse:
    """The response for an error."""
    return JSONResponse(
        problem(error),
        status_code=status_of(error),
        headers=headers_of(error),
        media_type=PROBLEM_MEDIA_TYPE,
    )


async def _on_herma_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HermaError)
    return response_of(error)


async def _on_validation_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    fields: dict[str, str] = {}
    for item in error.errors()[:_MOST_FIELDS]:
        if item["type"] == "json_invalid":
            return response_of(_not_json())
        # The location starts with where the field is: body, query, path or header.
        name = ".".join(str(part) for part in item["loc"][1:]) or "body"
        text = "is not a known field" if item["type"] == "extra_forbidden" else str(item["msg"])
        fields[_printable(name)] = text
    return response_of(InvalidArgument("the request is malformed", fields=fields))


def _not_json() -> InvalidArgument:
    return InvalidArgument("the body is not valid JSON", reason="INVALID_JSON")


def _printable(name: str) -> str:
    """A client's name for a field, as it may be answered: JSON can spell what UTF-8 cannot."""
    return name[:_MOST_NAME].encode("utf-8", "replace").decode()


async def _on_http_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return response_of(NotFound("no such resource"))
    if error.status_code == 400:
        # FastAPI's own: a body that it could not decode.
        return response_of(_not_json())
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": str(error.detail),
        "status": error.status_code,
        "detail": str(error.detail),
        "reason": "METHOD_NOT_ALLOWED" if error.status_code == 405 else "INVALID_ARGUMENT",
    }
    return JSONResponse(
        body, status_code=error.status_code, headers=error.headers, media_type=PROBLEM_MEDIA_TYPE
    )


async def _on_unforeseen(request: Request, error: Exception) -> JSONResponse:
    _log.error("a request failed unexpectedly", path=request.url.path, exc_info=error)
    return response_of(Internal("internal error; see the service's log"))
