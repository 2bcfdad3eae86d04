"""A server on loopback that answers with the very bytes that a test gives, in the pace that it gives."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[str], AsyncIterator[bytes]]


@dataclass
class RawServer:
    """What was asked, whole and in order, and where it listens."""

    port: int = 0
    asked: list[str] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def raw_server(
    answer: Answer, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Serves one request a connection."""
    served = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            served.asked.append(head)
            async for data in answer(head):
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, host, 0, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def says(status: str, body: bytes = b"", **headers: str) -> Answer:
    """An answer that is complete at once."""

    async def answer(_head: str) -> AsyncIterator[bytes]:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        yield "\r\n".join([*lines, "", ""]).encode() + body

    return answer
