"""Composition of gateway: the only place that reads settings and constructs."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import uvicorn
from fastapi import FastAPI

import herma
from herma.common.app import Lifecycle, run
from herma.common.guarded_http import AddressPolicy, GuardedClient
from herma.common.ids import UuidV7Factory
from herma.common.logs import logger
from herma.common.rpc import Peer, ServiceIdentity, ServiceKeys
from herma.gateway import errors, openapi
from herma.gateway.auth import Doorkeeper
from herma.gateway.authority import Authority
from herma.gateway.limits import BodyLimit
from herma.gateway.oidc.key_sets import KeySets, fetch_document
from herma.gateway.oidc.tokens import TokenVerifier
from herma.gateway.pace import Pace
from herma.gateway.routes import (
    audit,
    chat_completions,
    events,
    grants,
    health,
    issuers,
    keys,
    messages,
    models,
    principals,
    profiles,
    responses,
    sessions,
    tenants,
    turns,
    whoami,
)
from herma.gateway.settings import GatewaySettings
from herma.gateway.tracing import ServerSpans

NAME = "gateway"

_log = logger(__name__)


def build_app(
    authority: Authority,
    doorkeeper: Doorkeeper,
    stopping: asyncio.Event,
    pace: Pace = Pace(),
) -> FastAPI:
    """The HTTP application."""
    app = FastAPI(
        title="Herma",
        version=herma.__version__,
        description="Hosts AI agents for many tenants.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # `ServerSpans` makes the spans; FastAPI's own repeat them, and its logs quote what was sent.
        telemetry={"tracing": False, "operation_spans": False, "logs": False, "auto_configure": False},
    )
    app.state.authority = authority
    app.state.doorkeeper = doorkeeper
    app.state.stopping = stopping
    app.state.pace = pace
    app.state.new_id = UuidV7Factory()
    errors.install(app)
    openapi.install(app)
    for module in (
        sessions,
        messages,
        events,
        turns,
        keys,
        profiles,
        principals,
        grants,
        issuers,
        tenants,
        audit,
        whoami,
        chat_completions,
        responses,
        models,
        health,
    ):
        app.include_router(module.router)
    app.add_middleware(BodyLimit)
    app.add_middleware(ServerSpans)
    return app


def doorkeeper_of(authority: Authority, outside: GuardedClient) -> Doorkeeper:
    """What lets visitors in, by keys and by tokens.

    Args:
        outside: The way to URLs of tenants.
    """
    keys = KeySets(partial(fetch_document, outside))
    return Doorkeeper(authority, TokenVerifier(authority.issuers, keys))


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling: the process's life belongs to `common.app`."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none."""
        yield


def http_server(app: FastAPI, listen: str) -> uvicorn.Server:
    """What serves `app` on `host:port`; port 0 for any."""
    host, _, port = listen.rpartition(":")
    return _Server(
        uvicorn.Config(
            app,
            host=host.strip("[]"),
            port=int(port),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
            server_header=False,
            h11_max_incomplete_event_size=32 * 1024,
        )
    )


async def serve(settings: GatewaySettings, lifecycle: Lifecycle) -> None:
    """Serves until asked to stop."""
    pairs = {pair: key.get_secret_value() for pair, key in settings.service_keys.items()}
    stopping = asyncio.Event()
    identity = ServiceIdentity(NAME, ServiceKeys(pairs))
    async with (
        Peer("session-authority", settings.authority_address, identity) as peer,
        GuardedClient(AddressPolicy(settings.egress_allowed_networks)) as outside,
    ):
        authority = Authority(peer)
        doorkeeper = doorkeeper_of(authority, outside)
        server = http_server(build_app(authority, doorkeeper, stopping), settings.http_listen)
        serving = asyncio.create_task(server.serve())
        stop = asyncio.create_task(lifecycle.stopping())
        _log.info("serving", http=settings.http_listen)
        await asyncio.wait([serving, stop], return_when=asyncio.FIRST_COMPLETED)
        stopping.set()
        server.should_exit = True
        stop.cancel()
        await serving


def main() -> None:
    """Runs the service with settings from the environment."""
    settings = GatewaySettings()
    run(NAME, settings, lambda lifecycle: serve(settings, lifecycle), grace=settings.drain_seconds)
