"""Shows streamed text: at most one publication per 40 ms and turn, the first without delay."""

from __future__ import annotations

import asyncio

from herma.agent_runner.authority import Authority
from herma.agent_runner.lease_keeper import LeaseKeeper
from herma.api.ledger.v1 import ledger_pb2
from herma.common.errors import HermaError

_EVERY = 0.04


class DeltaPublisher:
    """Streamed text of one message.  Best effort: the whole message is appended anyway."""

    def __init__(
        self, authority: Authority, keeper: LeaseKeeper, turn_id: str, message_id: str, attempt: int
    ) -> None:
        self._authority = authority
        self._keeper = keeper
        self._turn_id = turn_id
        self._message_id = message_id
        self._attempt = attempt
        self._offset = 0
        self._waiting: list[str] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, text: str) -> None:
        """Takes a piece of text."""
        self._waiting.append(text)
        if self._task is None:
            self._task = asyncio.create_task(self._publish())

    async def close(self) -> None:
        """Drops what was not shown: the message is complete or void."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _publish(self) -> None:
        while self._waiting:
            text = "".join(self._waiting).encode("utf-8", "replace").decode()
            self._waiting.clear()
            for start in range(0, len(text), 16_384):
                piece = text[start : start + 16_384]
                delta = ledger_pb2.Delta(
                    turn_id=self._turn_id,
                    message_id=self._message_id,
                    attempt=self._attempt,
                    offset=self._offset,
                    text=piece.replace("\0", "�"),
                )
                try:
                    await self._authority.publish_delta(self._keeper.turn_token, delta)
                except HermaError:
                    return  # subscribers get the whole message
                self._offset += len(piece)
            await asyncio.sleep(_EVERY)
        self._task = None
