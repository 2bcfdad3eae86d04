"""The gRPC face of memory: unpack, call, pack."""

from __future__ import annotations

from typing import Any

from herma.api.memory.v1 import memory_pb2, memory_pb2_grpc
from herma.common.rpc import current_caller
from herma.common.turn_token import TurnIdentity, TurnTokenVerifier
from herma.memory.store import Note, NoteStore


class MemoryServicer(memory_pb2_grpc.MemoryServiceServicer):
    """Notes."""

    def __init__(self, notes: NoteStore, verifier: TurnTokenVerifier) -> None:
        self._notes = notes
        self._verifier = verifier

    async def GetNotes(  # noqa: N802  # the proto's name
        self, request: memory_pb2.GetNotesRequest, context: Any
    ) -> memory_pb2.GetNotesResponse:
        notes = await self._notes.read(self._identity())
        return memory_pb2.GetNotesResponse(notes=[_message(note) for note in notes])

    async def PutNote(  # noqa: N802
        self, request: memory_pb2.PutNoteRequest, context: Any
    ) -> memory_pb2.PutNoteResponse:
        note = await self._notes.write(self._identity(), request.name, request.content, request.version)
        return memory_pb2.PutNoteResponse(note=_message(note))

    def _identity(self) -> TurnIdentity:
        return self._verifier.verify(current_caller().turn_token)


def _message(note: Note) -> memory_pb2.Note:
    return memory_pb2.Note(name=note.name, content=note.content, version=note.version)
