"""Every refusal with a stable reason; how it looks is decided by `shapes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from herma.common.errors import HermaError, Internal, InvalidArgument, NotFound
from herma.common.logs import logger
from herma.common.problem import headers_of, problem
from herma.gateway.openapi import allowed_methods
from herma.gateway.shapes import shaped

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


def response_of(request: Request, error: HermaError) -> JSONResponse:
    """The response for an error, in the shape of the request's path."""
    return _response(request, problem(error), headers_of(error))


def _response(
    request: Request, document: Mapping[str, Any], headers: Mapping[str, str] | None
) -> JSONResponse:
    shape = shaped(request.scope["path"], document, headers or {})
    return JSONResponse(
        shape.body,
        status_code=shape.status,
        headers=dict(shape.headers),
        media_type=shape.media_type,
    )


async def _on_herma_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HermaError)
    return response_of(request, error)


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    fields: dict[str, str] = {}
    for item in error.errors()[:_MOST_FIELDS]:
        if item["type"] == "json_invalid":
            return response_of(request, _not_json())
        # The location starts with where the field is: body, query, path or header.
        name = ".".join(str(part) for part in item["loc"][1:]) or "body"
        text = "is not a known field" if item["type"] == "extra_forbidden" else str(item["msg"])
        fields[_printable(name)] = text
    return response_of(request, InvalidArgument("the request is malformed", fields=fields))


def _not_json() -> InvalidArgument:
    return InvalidArgument("the body is not valid JSON", reason="INVALID_JSON")


def _printable(name: str) -> str:
    """A client's name for a field, as it may be answered: JSON can spell what UTF-8 cannot."""
    return name[:_MOST_NAME].encode("utf-8", "replace").decode()


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return response_of(request, NotFound("no such resource"))
    if error.status_code == 400:
        # FastAPI's own: a body that it could not decode.
        return response_of(request, _not_json())
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": str(error.detail),
        "status": error.status_code,
        "detail": str(error.detail),
        "reason": "METHOD_NOT_ALLOWED" if error.status_code == 405 else "INVALID_ARGUMENT",
    }
    headers = dict(error.headers or {})
    if error.status_code == 405 and (allowed := allowed_methods(request.app, request.scope["path"])):
        headers["Allow"] = ", ".join(allowed)
    return _response(request, body, headers)


async def _on_unforeseen(request: Request, error: Exception) -> JSONResponse:
    _log.error("a request failed unexpectedly", path=request.url.path, exc_info=error)
    return response_of(request, Internal("internal error; see the service's log"))
