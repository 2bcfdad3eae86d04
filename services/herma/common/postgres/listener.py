"""LISTEN: a hint that something may have changed; correctness never depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import asyncpg

from herma.common.logs import logger

_log = logger(__name__)


class Listener:
    """Keeps one connection listening and calls back with each payload.

    Reconnects for ever, and calls every callback with an empty payload after each reconnect, since
    notifications may have been missed meanwhile.

    Args:
        url: Must reach PostgreSQL itself, not a pooler in transaction mode.
        channels: Callback by channel; it must return at once.
    """

    def __init__(self, url: str, channels: Mapping[str, Callable[[str], None]]) -> None:
        self._url = url
        self._channels = channels

    async def run(self) -> None:
        """Listens until cancelled."""
        while True:
            try:
                await self._listen()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                _log.warning("listening was cut", error=str(error))
            await asyncio.sleep(0.2)

    async def _listen(self) -> None:
        connection = await asyncpg.connect(self._url, timeout=5)
        closed = asyncio.Event()
        connection.add_termination_listener(lambda _connection: closed.set())
        try:
            for channel, callback in self._channels.items():
                await connection.add_listener(
                    channel,
                    lambda _connection, _pid, _channel, payload, call=callback: call(payload),
                )
            for callback in self._channels.values():
                callback("")
            await closed.wait()
        finally:
            connection.terminate()
