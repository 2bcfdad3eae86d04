"""A gateway on a port of its own, over real HTTP, in front of a played authority."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx
import pytest
from tests.component.gateway.wire_authority import SERVICE_KEYS, WireAuthority

from herma.common.guarded_http import AddressPolicy, GuardedClient
from herma.common.rpc import Peer, ServiceIdentity, ServiceKeys
from herma.gateway.app import build_app, doorkeeper_of, http_server
from herma.gateway.authority import Authority
from herma.gateway.pace import Pace

LOOPBACK = AddressPolicy((ipaddress.ip_network("127.0.0.0/8"),))
PACE = Pace(heartbeat=0.1, recheck=0.2, backoff=0.02, backoff_most=0.1)


@dataclass
class Gateway:
    """A running gateway."""

    url: str
    stopping: asyncio.Event


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Waits for a condition."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def authority() -> AsyncIterator[WireAuthority]:
    """The played authority."""
    played = WireAuthority()
    await played.start()
    yield played
    await played.stop()


@pytest.fixture
async def gateway(authority: WireAuthority) -> AsyncIterator[Gateway]:
    """The gateway in front of it."""
    identity = ServiceIdentity("gateway", ServiceKeys(SERVICE_KEYS))
    stopping = asyncio.Event()
    async with AsyncExitStack() as stack:
        peer = await stack.enter_async_context(
            Peer("session-authority", f"127.0.0.1:{authority.port}", identity)
        )
        outside = await stack.enter_async_context(GuardedClient(LOOPBACK))
        met = Authority(peer)
        app = build_app(met, doorkeeper_of(met, outside), stopping, PACE)
        server = http_server(app, "127.0.0.1:0")
        serving = asyncio.create_task(server.serve())
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Gateway(f"http://127.0.0.1:{port}", stopping)
        stopping.set()
        server.should_exit = True
        await serving


@pytest.fixture
async def anonymous(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key."""
    async with httpx.AsyncClient(base_url=gateway.url, timeout=10, trust_env=False) as client:
        yield client


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key for agents and keys."""
    headers = {"Authorization": "Bearer good"}
    async with httpx.AsyncClient(
        base_url=gateway.url, headers=headers, timeout=10, trust_env=False
    ) as client:
        yield client
