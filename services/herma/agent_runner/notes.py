"""memory as the runner sees it: the notes that go into a session's prompt."""

from __future__ import annotations

from typing import Any

from herma.api.memory.v1 import memory_pb2, memory_pb2_grpc
from herma.common.rpc import Peer


class Notes:
    """Notes of the profile and principal that a turn token names."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = memory_pb2_grpc.MemoryServiceStub(peer.channel)

    async def snapshot(self, turn_token: str) -> str:
        """Both documents as one block for the prompt; empty when nothing was written."""
        response: memory_pb2.GetNotesResponse = await self._peer.call(
            self._stub.GetNotes,
            memory_pb2.GetNotesRequest(),
            timeout=60,
            turn_token=turn_token,
            retry=True,
        )
        return "\n\n".join(
            f"{note.name}:\n{note.content.strip()}" for note in response.notes if note.content.strip()
        )
