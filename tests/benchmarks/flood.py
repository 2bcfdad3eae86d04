"""Turns as fast as the platform takes them: a client that costs next to nothing itself.

One flood makes sessions, then sends all their messages over a few connections (keep-alive, no response
parsed beyond its status), and looks into the database for when the last turn has ended.  A session's
turns run one after the other, so the number of sessions is how many can run at once.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import asyncpg

from tests.benchmarks.stage import Stage
from tests.support.platform import Client

_CONNECTIONS = 16
_OPEN = "SELECT EXISTS (SELECT FROM authority.turns WHERE state IN ('queued', 'running', 'waiting'))"
# Looking costs the database that is measured.
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Flood:
    """So many sessions with so many turns each."""

    sessions: int
    turns: int

    async def run(self, stage: Stage, admin: asyncpg.Connection[asyncpg.Record]) -> float:
        """Turns per second, from the first submission to the last end.

        Raises:
            AssertionError: when a turn did not complete.
        """
        async with Client(stage.url, stage.key) as client:
            sessions = [await client.session() for _ in range(self.sessions)]
        requests = [_request(stage, s, n) for n in range(self.turns) for s in sessions]
        requests.reverse()
        began = time.monotonic()
        await asyncio.gather(*(_send(stage.url, requests) for _ in range(_CONNECTIONS)))
        while await admin.fetchval(_OPEN):
            await asyncio.sleep(_LOOK_SECONDS)  # the clients of a flood do not subscribe
        elapsed = time.monotonic() - began
        completed = await admin.fetchval(
            """
            SELECT count(*) FROM authority.turns
            WHERE state = 'completed' AND session_id = ANY($1::uuid[])
            """,
            sessions,
        )
        assert completed == self.sessions * self.turns, f"{completed} turns completed"
        return self.sessions * self.turns / elapsed


def _request(stage: Stage, session: str, number: int) -> bytes:
    body = json.dumps({"content": f"Say something, {number}."}).encode()
    head = (
        f"POST /v1/sessions/{session}/messages HTTP/1.1\r\nHost: {urlsplit(stage.url).netloc}\r\n"
        f"Authorization: Bearer {stage.key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _send(url: str, requests: list[bytes]) -> None:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        while requests:
            writer.write(requests.pop())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 202"), head
            length = next(
                int(line.partition(b":")[2])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            )
            await reader.readexactly(length)
    finally:
        writer.close()
