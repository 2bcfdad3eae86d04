"""Notes: two documents per profile and principal, versioned.

A writer names the version that it read, so that a stale edit is refused and never overwrites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from herma.common.errors import InvalidArgument, NoteChanged, PermissionDenied
from herma.common.postgres import Database
from herma.common.turn_token import TurnIdentity

# Characters: a prompt holds both documents whole.
BUDGETS = {"MEMORY": 8_000, "USER": 4_000}


@dataclass(frozen=True, slots=True)
class Note:
    """One document; version 0 when it was never written."""

    name: str
    content: str
    version: int


class NoteStore:
    """The only SQL of memory."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, identity: TurnIdentity) -> Sequence[Note]:
        """Both documents of the identity's profile and principal; none for an untrusted turn."""
        if identity.trust != "trusted":
            return []
        async with self._database.transaction(identity.tenant_id) as connection:
            rows = await connection.fetch(
                """
                SELECT DISTINCT ON (name) name, content, version FROM memory.notes
                WHERE tenant_id = $1 AND profile_id = $2 AND principal_id = $3
                ORDER BY name, version DESC
                """,
                identity.tenant_id,
                identity.profile_id,
                identity.principal_id,
            )
        found = {row["name"]: Note(**row) for row in rows}
        return [found.get(name, Note(name, "", 0)) for name in BUDGETS]

    async def write(self, identity: TurnIdentity, name: str, content: str, version: int) -> Note:
        """Replaces one document.

        Raises:
            InvalidArgument: for an unknown name or content beyond the budget.
            NoteChanged: when `version` is not the newest.
            PermissionDenied: for an untrusted turn.
        """
        if identity.trust != "trusted":
            raise PermissionDenied("an untrusted turn writes no notes")
        if name not in BUDGETS:
            raise InvalidArgument("no such note", fields={"name": "MEMORY or USER"})
        if len(content) > BUDGETS[name] or "\0" in content:
            raise InvalidArgument(
                "the note does not fit", fields={"content": f"at most {BUDGETS[name]} characters"}
            )
        try:
            async with self._database.transaction(identity.tenant_id) as connection:
                newest = await connection.fetchval(
                    """
                    SELECT coalesce(max(version), 0) FROM memory.notes
                    WHERE tenant_id = $1 AND profile_id = $2 AND principal_id = $3 AND name = $4
                    """,
                    identity.tenant_id,
                    identity.profile_id,
                    identity.principal_id,
                    name,
                )
                if newest != version:
                    raise NoteChanged(f"the note has version {newest}")
                await connection.execute(
                    """
                    INSERT INTO memory.notes (tenant_id, profile_id, principal_id, name, version,
                                              content, turn_id)
                    VALUES ($1, $2, $3, $4, $5, $6, $7)
                    """,
                    identity.tenant_id,
                    identity.profile_id,
                    identity.principal_id,
                    name,
                    version + 1,
                    content,
                    identity.turn_id,
                )
        except asyncpg.UniqueViolationError as error:
            raise NoteChanged("the note was changed at the same moment") from error
        return Note(name, content, version + 1)
