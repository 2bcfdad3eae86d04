"""The OpenAPI document, told the truth about refusals.

FastAPI documents refusals as `application/json` and its own 422; ours are problem documents (except on
OpenAI's paths), and malformed requests answer 400.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from herma.common.problem import PROBLEM_MEDIA_TYPE
from herma.gateway.shapes import speaks_openai


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
            )
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI documents this way to extend it


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """The documented methods of the resource at a path, as `Allow` lists them."""
    return sorted(
        method.upper()
        for template, methods in app.openapi()["paths"].items()
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path)
        for method in methods
    )


def _corrected(document: dict[str, Any]) -> dict[str, Any]:
    for address, path in document["paths"].items():
        for operation in path.values():
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
    return document
