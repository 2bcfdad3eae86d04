"""Protos to domain values and back."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from herma.api.memory.v1 import memory_pb2
from herma.common.errors import InvalidArgument
from herma.memory.domain.fact import DEFAULT_TRUST, Fact, NewFact
from herma.memory.domain.note import BUDGETS, Note, NoteAction, NoteEdit
from herma.memory.domain.ranking import Recalled

_ACTIONS = {
    memory_pb2.NOTE_ACTION_ADD: NoteAction.ADD,
    memory_pb2.NOTE_ACTION_REPLACE: NoteAction.REPLACE,
    memory_pb2.NOTE_ACTION_REMOVE: NoteAction.REMOVE,
}


def note_message(note: Note) -> memory_pb2.Note:
    """A document."""
    return memory_pb2.Note(
        name=note.name,
        version=note.version,
        entries=[memory_pb2.NoteEntry(id=entry.id, text=entry.text) for entry in note.entries],
        budget=BUDGETS[note.name],
    )


def note_edit_of(request: memory_pb2.EditNoteRequest) -> NoteEdit:
    """An edit.

    Raises:
        InvalidArgument: for an unknown action.
    """
    action = _ACTIONS.get(request.action)
    if action is None:
        raise InvalidArgument("there is no such action", fields={"action": "add, replace or remove"})
    return NoteEdit(
        name=request.name,
        action=action,
        entry=request.entry,
        text=request.text,
        version=request.version if request.HasField("version") else None,
    )


def new_fact_of(request: memory_pb2.RememberRequest) -> NewFact:
    """A fact as it is told.

    Raises:
        InvalidArgument: for a time that is none.
    """
    return NewFact(
        text=request.text,
        category=request.category or "fact",
        entities=tuple(request.entities),
        trust=request.trust if request.HasField("trust") else DEFAULT_TRUST,
        valid_from=_time(request.valid_from, "valid_from") if request.HasField("valid_from") else None,
        valid_to=_time(request.valid_to, "valid_to") if request.HasField("valid_to") else None,
    )


def fact_message(fact: Fact) -> memory_pb2.Fact:
    """A fact."""
    return memory_pb2.Fact(
        id=str(fact.id),
        text=fact.text,
        category=fact.category,
        entities=fact.entities,
        trust=fact.trust,
        source_turn_id=str(fact.source_turn_id),
        created_at=_timestamp(fact.created_at),
        valid_from=_timestamp(fact.valid_from),
        valid_to=_timestamp(fact.valid_to),
    )


def recalled_message(recalled: Recalled) -> memory_pb2.RecalledFact:
    """A fact that fits, and why."""
    return memory_pb2.RecalledFact(
        fact=fact_message(recalled.fact),
        score=recalled.score.total,
        text_score=recalled.score.text,
        trust_score=recalled.score.trust,
        recency_score=recalled.score.recency,
        matched=recalled.matched,
    )


def _time(message: Timestamp, field: str) -> datetime:
    try:
        return message.ToDatetime(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument("the time is none", fields={field: "is out of range"}) from error


def _timestamp(at: datetime | None) -> Timestamp | None:
    if at is None:
        return None
    message = Timestamp()
    message.FromDatetime(at)
    return message
