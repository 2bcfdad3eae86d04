"""Notes: two documents per scope; every version is kept.

Writers of one document take turns (an advisory lock), so concurrent edits of entries all take effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg

from herma.common.errors import NoteChanged
from herma.common.postgres import Connection, Database
from herma.common.turn_token import TurnIdentity
from herma.memory.domain.note import BUDGETS, Note, NoteEdit, NoteEntry, check_note_name, edited
from herma.memory.domain.scope import Scope, trusted_scope_of
from herma.memory.store.calls import begin_call, call_digest, end_call


class NoteStore:
    """Reads and edits notes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, identity: TurnIdentity) -> Sequence[Note]:
        """Both documents.

        Raises:
            PermissionDenied: for an untrusted turn.
        """
        scope = trusted_scope_of(identity)
        async with self._database.transaction(scope.tenant_id) as connection:
            return await read_notes(connection, scope)

    async def edit(self, identity: TurnIdentity, call_id: UUID, edit: NoteEdit) -> tuple[Note, str]:
        """Edits one entry: the document after it, and the entry's id.

        Raises:
            InvalidArgument: see `domain.note.edited`.
            NoteChanged: when the edit was made for another version.
            PermissionDenied: for an untrusted turn.
            IdempotencyConflict: when another request was made under the call id.
        """
        scope = trusted_scope_of(identity)
        check_note_name(edit.name)
        digest = call_digest(identity, "edit_note", edit)
        async with self._database.transaction(scope.tenant_id) as connection:
            answered = await begin_call(connection, scope.tenant_id, call_id, digest)
            if answered is not None:
                notes = await read_notes(connection, scope, answered["version"])
                return _one(notes, edit.name), str(answered["entry_id"])
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
                f"{scope.tenant_id}/{scope.profile_id}/{scope.principal_id}/{edit.name}",
            )
            before = _one(await read_notes(connection, scope), edit.name)
            after, entry_id = edited(before, edit)
            if after is not before:
                await _insert(connection, scope, after, identity.turn_id)
            response = {"version": after.version, "entry_id": entry_id}
            await end_call(connection, scope.tenant_id, call_id, response)
        return after, entry_id


async def read_notes(connection: Connection, scope: Scope, version: int | None = None) -> list[Note]:
    """Both documents of a scope, as they are or as they were at a version."""
    rows = await connection.fetch(
        """
        SELECT DISTINCT ON (name) name, version, content, entries, last_entry FROM memory.notes
        WHERE tenant_id = $1 AND profile_id = $2 AND principal_id = $3
          AND ($4::bigint IS NULL OR version <= $4)
        ORDER BY name, version DESC
        """,
        scope.tenant_id,
        scope.profile_id,
        scope.principal_id,
        version,
    )
    found = {}
    for row in rows:
        record = {"entries": row["entries"], "last": row["last_entry"], "version": row["version"]}
        if row["entries"] is None:
            record |= {"entries": [["1", row["content"]]] if row["content"] else [], "last": 1}
        found[row["name"]] = _note_of(row["name"], record)
    return [found.get(name, Note(name)) for name in BUDGETS]


async def _insert(connection: Connection, scope: Scope, note: Note, turn_id: UUID) -> None:
    try:
        await connection.execute(
            """
            INSERT INTO memory.notes (tenant_id, profile_id, principal_id, name, version, content,
                                      entries, last_entry, turn_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            """,
            scope.tenant_id,
            scope.profile_id,
            scope.principal_id,
            note.name,
            note.version,
            note.content,
            [[entry.id, entry.text] for entry in note.entries],
            note.last_entry,
            turn_id,
        )
    except asyncpg.UniqueViolationError as error:
        # Not by this release, whose writers take turns.
        raise NoteChanged("the note was changed at the same moment") from error


def _one(notes: Sequence[Note], name: str) -> Note:
    return next(note for note in notes if note.name == name)


def _note_of(name: str, record: dict[str, Any]) -> Note:
    entries = tuple(NoteEntry(entry_id, text) for entry_id, text in record["entries"])
    return Note(name, record["version"], entries, record["last"])
