"""Memory as tools and prompts see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NotesDocument:
    """One notes document: its entries by id, and the characters that it may have."""

    name: str
    entries: Sequence[tuple[str, str]]
    budget: int

    @property
    def size(self) -> int:
        """Characters of all entries."""
        return sum(len(text) for _, text in self.entries)


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact, and when it was told."""

    id: str
    text: str
    category: str
    told: date


@dataclass(frozen=True, slots=True)
class Memories:
    """What a turn starts from."""

    notes: Sequence[NotesDocument]
    facts: Sequence[KnownFact]


class MemoryAccess(Protocol):
    """The memory of one turn's scope.  Raises the errors of `common.errors`."""

    async def search(self, query: str, at_most: int) -> Sequence[KnownFact]:
        """The facts that fit, best first."""
        ...

    async def remember(
        self, call_id: str, text: str, category: str, entities: Sequence[str], valid_until: date | None
    ) -> tuple[KnownFact, bool]:
        """Stores a fact; whether it is new."""
        ...

    async def forget(self, call_id: str, fact_id: str) -> None:
        """Deletes a fact."""
        ...

    async def notes(self) -> Sequence[NotesDocument]:
        """Both documents."""
        ...

    async def edit_note(
        self, call_id: str, name: str, action: str, entry: str, text: str
    ) -> tuple[NotesDocument, str]:
        """Edits one entry (`add`, `replace`, `remove`): the document after it, and the entry's id."""
        ...
