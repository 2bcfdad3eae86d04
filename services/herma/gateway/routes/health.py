"""Probes and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from herma.gateway.routes.parts import TheAuthority

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthz() -> PlainTextResponse:
    """This process lives."""
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def readyz(request: Request, authority: TheAuthority) -> PlainTextResponse:
    """This process can serve: it does not stop, and what it needs answers."""
    if request.app.state.stopping.is_set():
        return PlainTextResponse("stopping\n", status_code=503)
    if not await authority.ready():
        return PlainTextResponse("session-authority does not answer\n", status_code=503)
    return PlainTextResponse("ready\n")


@router.get("/metrics")
async def metrics() -> Response:
    """Prometheus metrics of this process."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
