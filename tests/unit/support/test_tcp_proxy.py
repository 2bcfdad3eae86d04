"""The proxy forwards faithfully, and misbehaves only when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.tcp_proxy import FaultProxy
from tests.support.waiting import eventually


@pytest.fixture
async def echo() -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def connect(proxy: FaultProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = proxy.address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def said(reader: asyncio.StreamReader, count: int = 5) -> bytes:
    return await asyncio.wait_for(reader.readexactly(count), 5)


async def test_bytes_and_ends_are_forwarded(echo: str) -> None:
    with FaultProxy(echo) as proxy:
        reader, writer = await connect(proxy)
        payload = bytes(range(256)) * 8192
        writer.write(payload)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(-1), 10) == payload
        writer.close()
        await eventually(lambda: proxy.connections == 0, "the connection is forgotten", 5)
        assert proxy.accepted == 1


async def test_cut_connections_are_reset(echo: str) -> None:
    with FaultProxy(echo) as proxy:
        clients = [await connect(proxy) for _ in range(3)]
        for reader, writer in clients:
            writer.write(b"hello")
            assert await said(reader) == b"hello"
        assert await asyncio.to_thread(proxy.cut_all) == 3
        for reader, _ in clients:
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(1), 5)
        assert proxy.connections == 0
        reader, writer = await connect(proxy)
        writer.write(b"again")
        assert await said(reader) == b"again"
        writer.close()


@pytest.mark.parametrize("direction", ["both", "up", "down"])
async def test_a_pause_holds_back_and_loses_nothing(echo: str, direction: str) -> None:
    with FaultProxy(echo) as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"hello")
        assert await said(reader) == b"hello"
        proxy.pause(direction)  # type: ignore[arg-type]
        writer.write(b"later")
        reading = asyncio.create_task(reader.readexactly(5))
        done, _ = await asyncio.wait([reading], timeout=0.2)
        assert not done
        proxy.resume(direction)  # type: ignore[arg-type]
        assert await asyncio.wait_for(reading, 5) == b"later"
        writer.close()


async def test_a_paused_connection_can_be_cut(echo: str) -> None:
    with FaultProxy(echo) as proxy:
        reader, writer = await connect(proxy)
        writer.write(b"hello")
        assert await said(reader) == b"hello"
        proxy.pause("down")
        writer.write(b"never")
        proxy.cut_all()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1), 5)


async def test_refused_connections_leave_the_others(echo: str) -> None:
    with FaultProxy(echo) as proxy:
        reader, writer = await connect(proxy)
        address = proxy.address
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await connect(proxy)
        writer.write(b"hello")
        assert await said(reader) == b"hello"
        proxy.refuse(False)
        assert proxy.address == address
        again, other = await connect(proxy)
        other.write(b"world")
        assert await said(again) == b"world"
        writer.close()
        other.close()


async def test_latency_delays_each_direction(echo: str) -> None:
    with FaultProxy(echo) as proxy:
        proxy.latency = 0.1
        reader, writer = await connect(proxy)
        began = asyncio.get_running_loop().time()
        writer.write(b"hello")
        assert await said(reader) == b"hello"
        assert asyncio.get_running_loop().time() - began >= 0.2
        writer.close()


async def test_a_target_that_is_not_there_resets_its_clients() -> None:
    with FaultProxy("127.0.0.1:9") as proxy:

        async def read() -> None:
            reader, _ = await connect(proxy)
            await reader.read(1)

        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(read(), 5)
