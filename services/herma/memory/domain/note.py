"""Notes: two documents of a scope, edited by entry.

Invariant: an edit touches one entry, which its writer named beyond doubt; so a stale edit is refused and
never misplaced.  A prompt holds both documents whole, so each has a budget of characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from herma.common.errors import InvalidArgument, NoteChanged

# Characters.
BUDGETS = {"MEMORY": 8_000, "USER": 4_000}


class NoteAction(Enum):
    """What to do with an entry."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class NoteEntry:
    """One entry.  Its id is a number in decimal, never given out twice in a document."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """One document; version 0 when it was never written.  `last_entry` is the newest id given out."""

    name: str
    version: int = 0
    entries: Sequence[NoteEntry] = ()
    last_entry: int = 0

    @property
    def size(self) -> int:
        """Characters of all entries."""
        return sum(len(entry.text) for entry in self.entries)

    @property
    def content(self) -> str:
        """The document as one text."""
        return "\n".join(entry.text for entry in self.entries)


@dataclass(frozen=True, slots=True)
class NoteEdit:
    """What to change.  `entry` is an entry's id, or text that only this entry has."""

    name: str
    action: NoteAction
    entry: str = ""
    text: str = ""
    version: int | None = None


def check_note_name(name: str) -> None:
    """Raises InvalidArgument for a document that does not exist."""
    if name not in BUDGETS:
        raise InvalidArgument("there is no such note", fields={"name": "MEMORY or USER"})


def edited(note: Note, edit: NoteEdit) -> tuple[Note, str]:
    """The document after the edit, and the id of the entry that it touched.

    An entry that is already there is not added again: its id is answered and nothing changes.

    Raises:
        NoteChanged: when the edit was made for another version.
        InvalidArgument: when it names no entry or several, or would not fit the budget.
    """
    if edit.version is not None and edit.version != note.version:
        raise NoteChanged(f"the note has version {note.version}, the edit was made for {edit.version}")
    if edit.action is NoteAction.REMOVE:
        gone = _named(note, edit.entry)
        left = [entry for entry in note.entries if entry.id != gone.id]
        return replace(note, version=note.version + 1, entries=left), gone.id
    text = _text(edit.text)
    same = next((entry for entry in note.entries if entry.text == text), None)
    if edit.action is NoteAction.ADD:
        if same is not None:
            return note, same.id
        touched = NoteEntry(str(note.last_entry + 1), text)
        after = replace(
            note,
            version=note.version + 1,
            entries=[*note.entries, touched],
            last_entry=note.last_entry + 1,
        )
    else:
        touched = replace(_named(note, edit.entry), text=text)
        entries = [touched if entry.id == touched.id else entry for entry in note.entries]
        after = replace(note, version=note.version + 1, entries=entries)
    _check_budget(note, after)
    return after, touched.id


def _text(text: str) -> str:
    stripped = text.strip()
    if not stripped or "\0" in stripped:
        raise InvalidArgument("an entry needs text", fields={"text": "must not be empty"})
    return stripped


def _named(note: Note, wanted: str) -> NoteEntry:
    wanted = wanted.strip()
    if not wanted:
        raise InvalidArgument(
            f"name the entry by its id or by text that only it has. {_listing(note)}",
            fields={"entry": "must not be empty"},
        )
    by_id = [entry for entry in note.entries if entry.id == wanted]
    found = (
        by_id
        or [entry for entry in note.entries if entry.text == wanted]
        or [entry for entry in note.entries if wanted in entry.text]
    )
    if not found:
        raise InvalidArgument(
            f"no entry of {note.name} has that id or text. {_listing(note)}",
            fields={"entry": "fits no entry"},
        )
    if len(found) > 1:
        ids = ", ".join(entry.id for entry in found)
        raise InvalidArgument(
            f"the entries {ids} of {note.name} all have that text: use an id. {_listing(note)}",
            fields={"entry": "fits several entries"},
        )
    return found[0]


def _check_budget(before: Note, after: Note) -> None:
    budget = BUDGETS[after.name]
    if after.size > budget:
        raise InvalidArgument(
            f"{after.name} would have {after.size} characters, {budget} is the most. Shorten or remove"
            f" entries first. {_listing(before)}",
            reason="NOTE_BUDGET_EXCEEDED",
            fields={"text": f"{after.size - budget} characters too long"},
        )


def _listing(note: Note) -> str:
    if not note.entries:
        return f"{note.name} has no entries."
    shown = "; ".join(
        f"[{entry.id}] ({len(entry.text)} characters) {_short(entry.text)}"
        for entry in note.entries[:100]
    )
    return f"{note.name} has {note.size} of {BUDGETS[note.name]} characters: {shown}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:60] + "…"
