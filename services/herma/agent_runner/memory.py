"""memory as the runner sees it: one scope, which the turn token names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from herma.agent_runner.domain.memory import KnownFact, Memories, NotesDocument
from herma.agent_runner.domain.opening import Wanted
from herma.api.memory.v1 import memory_pb2, memory_pb2_grpc
from herma.common.errors import HermaError
from herma.common.rpc import Peer

# Of one recall.
_MAX_FACTS = 8
# How long a turn waits for its recall before it goes on without.
_RECALL_SECONDS = 1.5
# How long a call waits for memory to come back.
_CALL_SECONDS = 20.0

_ACTIONS = {
    "add": ("create_memory", memory_pb2.NOTE_ACTION_ADD),
    "replace": ("update_memory", memory_pb2.NOTE_ACTION_REPLACE),
    "remove": ("delete_memory", memory_pb2.NOTE_ACTION_REMOVE),
}


class MemoryClient:
    """The memory of any turn; the turn token says whose."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def of(self, token: Callable[[], str]) -> TurnMemory:
        """One turn's memory."""
        return TurnMemory(self._peer, token)


class TurnMemory:
    """See `domain.memory.MemoryAccess`.  Its spans hold no content."""

    def __init__(self, peer: Peer, token: Callable[[], str]) -> None:
        self._peer = peer
        self._stub: Any = memory_pb2_grpc.MemoryServiceStub(peer.channel)
        self._token = token
        self._tracer = trace.get_tracer("herma.agent_runner")

    async def recall(self, wanted: Wanted) -> Memories:
        """What a turn starts from, in one call.

        Raises:
            HermaError: when memory does not answer within 1.5 s.
        """
        request = memory_pb2.RecallRequest(
            query=_valid(wanted.query),
            max_facts=_MAX_FACTS if wanted.query else 0,
            with_notes=wanted.with_notes,
        )
        with self._span("search_memory") as span:
            answer = await self._call(self._stub.Recall, request, _RECALL_SECONDS)
            span.set_attribute("gen_ai.memory.record.count", len(answer.facts))
        return Memories(
            tuple(map(_document, answer.notes)), tuple(_fact(found.fact) for found in answer.facts)
        )

    async def search(self, query: str, at_most: int) -> Sequence[KnownFact]:
        """See `MemoryAccess`."""
        request = memory_pb2.RecallRequest(query=_valid(query), max_facts=at_most)
        with self._span("search_memory") as span:
            answer = await self._call(self._stub.Recall, request, _CALL_SECONDS)
            span.set_attribute("gen_ai.memory.record.count", len(answer.facts))
        return [_fact(found.fact) for found in answer.facts]

    async def remember(
        self, call_id: str, text: str, category: str, entities: Sequence[str], valid_until: date | None
    ) -> tuple[KnownFact, bool]:
        """See `MemoryAccess`."""
        request = memory_pb2.RememberRequest(
            call_id=call_id,
            text=_valid(text),
            category=category,
            entities=[_valid(entity) for entity in entities],
        )
        if valid_until is not None:
            # To the end of that day.
            request.valid_to.FromDatetime(datetime.combine(valid_until, time_of_day.max, UTC))
        with self._span("create_memory") as span:
            answer = await self._call(self._stub.Remember, request, _CALL_SECONDS)
            span.set_attribute("gen_ai.memory.record.id", answer.fact.id)
        return _fact(answer.fact), bool(answer.created)

    async def forget(self, call_id: str, fact_id: str) -> None:
        """See `MemoryAccess`."""
        request = memory_pb2.ForgetRequest(call_id=call_id, fact_id=_valid(fact_id))
        with self._span("delete_memory"):
            await self._call(self._stub.Forget, request, _CALL_SECONDS)

    async def notes(self) -> Sequence[NotesDocument]:
        """See `MemoryAccess`."""
        with self._span("search_memory"):
            answer = await self._call(self._stub.GetNotes, memory_pb2.GetNotesRequest(), _CALL_SECONDS)
        return [_document(note) for note in answer.notes]

    async def edit_note(
        self, call_id: str, name: str, action: str, entry: str, text: str
    ) -> tuple[NotesDocument, str]:
        """See `MemoryAccess`."""
        operation, wanted = _ACTIONS[action]
        request = memory_pb2.EditNoteRequest(
            call_id=call_id, name=name, action=wanted, entry=_valid(entry), text=_valid(text)
        )
        with self._span(operation):
            answer = await self._call(self._stub.EditNote, request, _CALL_SECONDS)
        return _document(answer.note), answer.entry_id

    async def _call(self, method: Any, request: Any, patience: float) -> Any:
        return await self._peer.call(
            method, request, timeout=patience, turn_token=self._token(), retry=True
        )

    @contextmanager
    def _span(self, operation: str) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            operation,
            kind=SpanKind.CLIENT,
            record_exception=False,
            set_status_on_exception=False,
            attributes={"gen_ai.operation.name": operation, "gen_ai.memory.store.id": "herma"},
        ) as span:
            try:
                yield span
            except HermaError as error:
                span.set_attribute("error.type", error.reason)
                span.set_status(Status(StatusCode.ERROR))
                raise


def _fact(fact: memory_pb2.Fact) -> KnownFact:
    return KnownFact(fact.id, fact.text, fact.category, fact.created_at.ToDatetime(UTC).date())


def _document(note: memory_pb2.Note) -> NotesDocument:
    return NotesDocument(note.name, tuple((entry.id, entry.text) for entry in note.entries), note.budget)


def _valid(text: str) -> str:
    """Text that protobuf takes: lone surrogates are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
