"""Shows streamed text: at most one publication per 40 ms and turn, the first without delay.

Best effort: the whole message is appended anyway.  The text of all turns of this process goes over one
call, so that streaming costs a turn no calls of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from herma.agent_runner.authority import Authority
from herma.agent_runner.lease_keeper import LeaseKeeper
from herma.api.lease.v1 import lease_pb2
from herma.api.ledger.v1 import ledger_pb2
from herma.common.errors import HermaError
from herma.common.logs import logger

_log = logger(__name__)

_EVERY = 0.04
_MAX_TEXT = 16_384
_MAX_WAITING = 10_000
_PAUSE_SECONDS = 0.2

_Waiting = asyncio.Queue[lease_pb2.PublishDeltasRequest | None]


class DeltaStream:
    """The call that carries the text of all turns of this process."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._waiting = _Waiting(_MAX_WAITING)
        # Counts the calls: text that was handed to a broken one may be lost.
        self.generation = 0

    def put(self, turn_token: str, delta: ledger_pb2.Delta) -> bool:
        """Hands over one piece; False when far too many wait."""
        try:
            self._waiting.put_nowait(lease_pb2.PublishDeltasRequest(turn_token=turn_token, delta=delta))
        except asyncio.QueueFull:
            return False
        return True

    async def run(self) -> None:
        """Sends until cancelled; a call that is cut is made again."""
        while True:
            waiting = self._waiting
            try:
                await self._authority.publish_deltas(_requests(waiting))
            except HermaError as error:
                _log.info("showing streamed text was cut", reason=error.reason)
            self.generation += 1
            # A broken call still waits for its next request, and would take the next call's first.
            self._waiting = _Waiting(_MAX_WAITING)
            _end(waiting)
            await asyncio.sleep(_PAUSE_SECONDS)


async def _requests(waiting: _Waiting) -> AsyncIterator[lease_pb2.PublishDeltasRequest]:
    while (request := await waiting.get()) is not None:
        yield request


def _end(waiting: _Waiting) -> None:
    """Ends whoever reads it; what is in it belongs to messages whose text has a gap by now."""
    while not waiting.empty():
        waiting.get_nowait()
    waiting.put_nowait(None)


class DeltaPublisher:
    """Streamed text of one message."""

    def __init__(
        self, stream: DeltaStream, keeper: LeaseKeeper, turn_id: str, message_id: str, attempt: int
    ) -> None:
        self._stream = stream
        self._keeper = keeper
        self._turn_id = turn_id
        self._message_id = message_id
        self._attempt = attempt
        self._generation = stream.generation
        self._offset = 0
        self._waiting: list[str] = []
        self._task: asyncio.Task[None] | None = None
        self._failed = False

    def put(self, text: str) -> None:
        """Takes a piece of text."""
        self._waiting.append(text)
        if self._task is None and not self._failed:
            self._task = asyncio.create_task(self._publish())

    async def close(self) -> None:
        """Drops what was not shown: the message is complete or void."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _publish(self) -> None:
        while self._waiting:
            # Code points that UTF-8 cannot spell, and NUL, are what PostgreSQL does not store.
            text = "".join(self._waiting).encode("utf-8", "replace").decode().replace("\0", "�")
            self._waiting.clear()
            for start in range(0, len(text), _MAX_TEXT):
                if not self._send(text[start : start + _MAX_TEXT]):
                    # A gap: subscribers get the whole message when it is complete.
                    self._failed = True
                    return
            await asyncio.sleep(_EVERY)
        self._task = None

    def _send(self, text: str) -> bool:
        delta = ledger_pb2.Delta(
            turn_id=self._turn_id,
            message_id=self._message_id,
            attempt=self._attempt,
            offset=self._offset,
            text=text,
        )
        self._offset += len(text)
        return self._generation == self._stream.generation and self._stream.put(
            self._keeper.turn_token, delta
        )
