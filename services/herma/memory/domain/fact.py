"""A fact: something that was told, with when it holds and how far it is trusted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from herma.common.errors import InvalidArgument
from herma.memory.domain.words import document_terms

MAX_TEXT = 1_000
MAX_ENTITIES = 16
MAX_ENTITY = 100
CATEGORIES = ("fact", "preference", "person", "project", "place", "event", "other")
# Of one scope.
MAX_FACTS = 200_000
DEFAULT_TRUST = 0.5


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact as it is told.  `trust` is from 0 to 1; it holds from `valid_from` until `valid_to`."""

    text: str
    category: str = "fact"
    entities: Sequence[str] = ()
    trust: float = DEFAULT_TRUST
    valid_from: datetime | None = None
    valid_to: datetime | None = None

    @property
    def digest(self) -> bytes:
        """The same for texts that differ in case or spaces alone."""
        return hashlib.sha256(" ".join(self.text.casefold().split()).encode()).digest()

    @property
    def terms(self) -> list[str]:
        """What it is found by."""
        return document_terms("\n".join((self.text, *self.entities)))


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored fact."""

    id: UUID
    text: str
    category: str
    entities: Sequence[str]
    trust: float
    source_turn_id: UUID
    created_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None


def check_fact(fact: NewFact) -> None:
    """Refuses what no fact can be.

    Raises:
        InvalidArgument: naming every field that is wrong.
    """
    wrong = {}
    if not fact.text.strip() or len(fact.text) > MAX_TEXT or "\0" in fact.text:
        wrong["text"] = f"1 to {MAX_TEXT} characters, this has {len(fact.text)}"
    elif not fact.terms:
        wrong["text"] = "must hold at least one letter or digit"
    if fact.category not in CATEGORIES:
        wrong["category"] = "one of " + ", ".join(CATEGORIES)
    if len(fact.entities) > MAX_ENTITIES or any(
        not entity.strip() or len(entity) > MAX_ENTITY or "\0" in entity for entity in fact.entities
    ):
        wrong["entities"] = f"at most {MAX_ENTITIES} names of 1 to {MAX_ENTITY} characters"
    if not 0 <= fact.trust <= 1:
        wrong["trust"] = "from 0 to 1"
    if fact.valid_from and fact.valid_to and fact.valid_from >= fact.valid_to:
        wrong["valid_to"] = "must be later than valid_from"
    if wrong:
        raise InvalidArgument("the fact cannot be stored: " + _join(wrong), fields=wrong)


def _join(wrong: dict[str, str]) -> str:
    return "; ".join(f"{field}: {what}" for field, what in wrong.items())
