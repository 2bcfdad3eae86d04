"""tool-sandbox on a real PostgreSQL, with sandboxes that are processes, and such that are containers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import docker
import pytest
from tests.component.tool_sandbox.service import ToolSandbox, Turn, new_identity
from tests.support.embedded import running_postgres

from herma.common.postgres.migrations import migrate
from herma.common.rpc import Peer
from herma.tool_sandbox.app import SCHEMA

BACKENDS = ["local", pytest.param("docker", marks=pytest.mark.docker)]
PASSWORD = "of-the-service"


@pytest.fixture(scope="session")
def admin_url() -> Iterator[str]:
    """The superuser's URL of a server with the schema `sandbox`."""
    with running_postgres() as url:
        asyncio.run(migrate(url, SCHEMA, PASSWORD))
        yield url


@pytest.fixture(scope="session")
def database_url(admin_url: str) -> str:
    """The service's own URL."""
    address = admin_url.rpartition("@")[2]
    return f"postgresql://{SCHEMA.service}:{PASSWORD}@{address}"


def running(backend: str, database_url: str, **options: float) -> Iterator[ToolSandbox]:
    """A tool-sandbox with its broker, and no trace of it afterwards."""
    # Short: the name of a unix socket has room for 107 bytes.
    with tempfile.TemporaryDirectory(prefix="hs-", ignore_cleanup_errors=True) as folder:
        service = ToolSandbox(backend, database_url, Path(folder), **options)
        try:
            asyncio.run(service.start())
            yield service
        finally:
            service.stop()
            if backend == "docker":
                remove_all(service.deployment)


def remove_all(deployment: str) -> None:
    """Removes a deployment's containers and volumes."""
    client = docker.from_env()
    for container in client.containers.list(
        all=True, filters={"label": f"herma.deployment={deployment}"}
    ):
        container.remove(force=True)
    for volume in client.volumes.list(filters={"name": f"herma-{deployment}-ws-"}):
        volume.remove()
    client.close()


@pytest.fixture(scope="module", params=BACKENDS)
def service(request: pytest.FixtureRequest, database_url: str) -> Iterator[ToolSandbox]:
    """One for the tests of a module."""
    yield from running(request.param, database_url)


@pytest.fixture(params=BACKENDS)
def own_service(request: pytest.FixtureRequest, database_url: str) -> Iterator[ToolSandbox]:
    """One for a test that breaks it; sandboxes are idle after a second and a half."""
    yield from running(request.param, database_url, idle_seconds=1.5)


@pytest.fixture
async def peer(service: ToolSandbox) -> AsyncIterator[Peer]:
    """The service as a runner sees it."""
    async with service.peer() as peer:
        yield peer


@pytest.fixture
async def turn(service: ToolSandbox, peer: Peer) -> Turn:
    """The first turn of a new session."""
    return Turn(peer, service.signer, new_identity())


@pytest.fixture
async def own_turn(own_service: ToolSandbox) -> AsyncIterator[Turn]:
    """The first turn of a new session, on a service of its own."""
    async with own_service.peer() as peer:
        yield Turn(peer, own_service.signer, new_identity())
