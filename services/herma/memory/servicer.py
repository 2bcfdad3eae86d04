"""The gRPC face of memory: unpack, call, pack."""

from __future__ import annotations

from typing import Any

from herma.api.memory.v1 import memory_pb2, memory_pb2_grpc
from herma.common.ids import parse_id
from herma.common.rpc import current_caller
from herma.common.turn_token import TurnIdentity, TurnTokenVerifier
from herma.memory import wire
from herma.memory.store.facts import FactStore
from herma.memory.store.notes import NoteStore


class MemoryServicer(memory_pb2_grpc.MemoryServiceServicer):
    """Notes and facts."""

    def __init__(self, notes: NoteStore, facts: FactStore, verifier: TurnTokenVerifier) -> None:
        self._notes = notes
        self._facts = facts
        self._verifier = verifier

    async def Recall(  # noqa: N802  # the proto's name
        self, request: memory_pb2.RecallRequest, context: Any
    ) -> memory_pb2.RecallResponse:
        recalled, notes = await self._facts.recall(
            self._identity(), request.query, request.max_facts, with_notes=request.with_notes
        )
        return memory_pb2.RecallResponse(
            notes=map(wire.note_message, notes), facts=map(wire.recalled_message, recalled)
        )

    async def GetNotes(  # noqa: N802
        self, request: memory_pb2.GetNotesRequest, context: Any
    ) -> memory_pb2.GetNotesResponse:
        notes = await self._notes.read(self._identity())
        return memory_pb2.GetNotesResponse(notes=map(wire.note_message, notes))

    async def EditNote(  # noqa: N802
        self, request: memory_pb2.EditNoteRequest, context: Any
    ) -> memory_pb2.EditNoteResponse:
        note, entry_id = await self._notes.edit(
            self._identity(), parse_id(request.call_id, "call_id"), wire.note_edit_of(request)
        )
        return memory_pb2.EditNoteResponse(note=wire.note_message(note), entry_id=entry_id)

    async def Remember(  # noqa: N802
        self, request: memory_pb2.RememberRequest, context: Any
    ) -> memory_pb2.RememberResponse:
        fact, created = await self._facts.remember(
            self._identity(), parse_id(request.call_id, "call_id"), wire.new_fact_of(request)
        )
        return memory_pb2.RememberResponse(fact=wire.fact_message(fact), created=created)

    async def Forget(  # noqa: N802
        self, request: memory_pb2.ForgetRequest, context: Any
    ) -> memory_pb2.ForgetResponse:
        await self._facts.forget(
            self._identity(),
            parse_id(request.call_id, "call_id"),
            parse_id(request.fact_id, "fact_id"),
        )
        return memory_pb2.ForgetResponse()

    def _identity(self) -> TurnIdentity:
        return self._verifier.verify(current_caller().turn_token)
