"""The OpenAPI document, told the truth about refusals and keys.

FastAPI documents refusals as `application/json` and its own 422; ours are problem documents (except on
OpenAI's paths), and malformed requests answer 400.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from herma.common.problem import PROBLEM_MEDIA_TYPE
from herma.gateway.auth import HolderOf
from herma.gateway.shapes import speaks_openai

_SCHEME = "ApiKey"


def install(app: FastAPI) -> None:
    """Makes `app` serve the corrected document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _corrected(
                get_openapi(
                    title=app.title,
                    version=app.version,
                    description=app.description,
                    routes=app.routes,
                ),
                _scopes(app),
            )
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI documents this way to extend it


def _scopes(app: FastAPI) -> dict[tuple[str, str], list[str]]:
    """The scopes that each operation needs, by path and method: none is for whoever has a key."""
    return {
        (route.path, method.lower()): [
            found.call.scope for found in route.dependant.dependencies if isinstance(found.call, HolderOf)
        ]
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }


def _corrected(document: dict[str, Any], scopes: dict[tuple[str, str], list[str]]) -> dict[str, Any]:
    for address, path in document["paths"].items():
        for method, operation in path.items():
            operation["security"] = [{_SCHEME: scopes[address, method]}]
            responses = operation["responses"]
            responses.pop("422", None)
            for status, response in responses.items():
                content = response.get("content", {})
                problem = status >= "400" and not speaks_openai(address)
                if problem and "application/json" in content:
                    content[PROBLEM_MEDIA_TYPE] = content.pop("application/json")
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {
        _SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key, or a token of an accepted OpenID Connect issuer.",
        }
    }
    return document
