"""Look-ups: what is slow holds up itself only."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Iterator, Sequence

import pytest
from tests.support.waiting import eventually

from herma.common.guarded_http import SystemResolver
from herma.common.guarded_http.addresses import Address

HERE: Sequence[Address] = [ipaddress.ip_address("127.0.0.1")]


class Silent:
    """Name servers of which some are silent until they are let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        if host.startswith("silent"):
            self.let_go.wait()
        if host.startswith("gone"):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return HERE


@pytest.fixture
def servers() -> Iterator[Silent]:
    silent = Silent()
    yield silent
    silent.let_go.set()


async def test_a_name_of_this_machine_is_found() -> None:
    assert ipaddress.ip_address("127.0.0.1") in await SystemResolver().addresses("localhost")


async def test_a_name_that_is_not_there_is_said_so(servers: Silent) -> None:
    resolver = SystemResolver(look_up=servers)
    for _ in range(2):
        with pytest.raises(socket.gaierror):
            await resolver.addresses("gone.example")
    assert servers.asked == ["gone.example"] * 2


async def test_silent_servers_hold_up_neither_others_nor_the_loop(servers: Silent) -> None:
    resolver = SystemResolver(seconds=30, look_up=servers)
    async with asyncio.TaskGroup() as group:
        silent = [
            group.create_task(resolver.addresses(f"silent{number}.example")) for number in range(40)
        ]
        await eventually(lambda: len(servers.asked) == 40, "all of them are asked")
        assert await resolver.addresses("quick.example") == HERE
        # The loop's own pool is free for all else that the process does.
        assert await asyncio.to_thread(lambda: True)
        servers.let_go.set()
        assert [await task for task in silent] == [HERE] * 40


async def test_a_look_up_is_waited_for_so_long_only(servers: Silent) -> None:
    resolver = SystemResolver(seconds=0.1, most=2, look_up=servers)
    for number in range(4):
        with pytest.raises(TimeoutError):
            await resolver.addresses(f"silent{number}.example")
    # Nobody waits for the first two any more, and still they run: no more threads than that.
    assert servers.asked == ["silent0.example", "silent1.example"]
    servers.let_go.set()

    async def is_found() -> bool:
        try:
            return await resolver.addresses("quick.example") == HERE
        except TimeoutError:
            return False

    await eventually(is_found, "there is room again")


async def test_who_asks_for_the_same_gets_the_same(servers: Silent) -> None:
    resolver = SystemResolver(seconds=30, most=2, look_up=servers)
    first = asyncio.create_task(resolver.addresses("silent.example"))
    await eventually(lambda: servers.asked, "it is looked up")
    others = [asyncio.create_task(resolver.addresses("silent.example")) for _ in range(10)]
    # One of them goes away; the others wait on.
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    servers.let_go.set()
    assert [await other for other in others] == [HERE] * 10
    assert servers.asked == ["silent.example"]
    # What was found is not kept.
    assert await resolver.addresses("silent.example") == HERE
    assert len(servers.asked) == 2
