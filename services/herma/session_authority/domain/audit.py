"""The audit log's records: what is recorded, and how each carries the one before.

Invariant: a record's hash covers every field of it and the hash before, each with its length, so that no
two different chains have the same end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Final
from uuid import UUID

_VERSION: Final = "herma-audit-1"
# Before a tenant's first record.
ORIGIN: Final = bytes(32)
_MOST_FINDINGS: Final = 20


class Action(Enum):
    """What is recorded: its name, and what its target is."""

    TENANT_CREATED = ("tenant.created", "the tenant")
    KEY_CREATED = ("key.created", "the key")
    KEY_ROTATED = ("key.rotated", "the old key")
    KEY_REVOKED = ("key.revoked", "the key")
    PRINCIPAL_CREATED = ("principal.created", "the service account")
    PRINCIPAL_ENTERED = ("principal.entered", "the user, at the first entry by a token")
    PRINCIPAL_CHANGED = ("principal.changed", "the principal")
    GRANT_ADDED = ("grant.added", "the grant")
    GRANT_REMOVED = ("grant.removed", "the grant")
    ISSUER_REGISTERED = ("issuer.registered", "the issuer")
    ISSUER_REMOVED = ("issuer.removed", "the issuer")
    PROFILE_APPLIED = ("profile.applied", "the profile")
    SESSION_DELETED = ("session.deleted", "the session")

    def __init__(self, label: str, target: str) -> None:
        self.label = label
        self.target = target


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a tenant's log.

    Attributes:
        principal_id: Who did it; None for the installation itself.
        key_id: With which key; None for a token.
        action: See `Action`.
        target: Id of what it was done to.
        outcome: `done` or `refused`.
        details: JSON object as text, with sorted keys.
        trace_id: Of the request, 32 hexadecimal digits, or empty.
        previous: Hash of the record before.
        hash: Of this one; empty until sealed.
    """

    tenant_id: UUID
    seq: int
    at: datetime
    principal_id: UUID | None
    key_id: UUID | None
    action: str
    target: str
    outcome: str
    details: str
    trace_id: str
    previous: bytes
    hash: bytes = b""

    def sealed(self) -> Record:
        """With its hash."""
        return replace(self, hash=self.digest())

    def digest(self) -> bytes:
        """SHA-256 over all fields but the hash itself."""
        digest = hashlib.sha256()
        for part in (
            _VERSION,
            str(self.tenant_id),
            str(self.seq),
            self.at.astimezone(UTC).isoformat(timespec="microseconds"),
            str(self.principal_id or ""),
            str(self.key_id or ""),
            self.action,
            self.target,
            self.outcome,
            self.details,
            self.trace_id,
            self.previous.hex(),
        ):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
        return digest.digest()


@dataclass(frozen=True, slots=True)
class Anchor:
    """An end of a chain as it was written down elsewhere."""

    tenant_id: UUID
    seq: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """What does not hold, at which record."""

    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What checking a chain found; `records` is how many there are, `anchors` how many were compared."""

    records: int
    anchors: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Nothing is wrong."""
        return not self.findings


def details_text(details: Mapping[str, object]) -> str:
    """Details as they are stored."""
    return json.dumps(details, ensure_ascii=False, sort_keys=True, default=str)


class ChainCheck:
    """Checks a chain record by record, and then its end.

    Args:
        anchors: Ends that were written down elsewhere, in any order.
    """

    def __init__(self, tenant_id: UUID, anchors: Iterable[Anchor] = ()) -> None:
        self._tenant_id = tenant_id
        self._anchors: dict[int, set[bytes]] = {}
        for anchor in anchors:
            if anchor.tenant_id == tenant_id:
                self._anchors.setdefault(anchor.seq, set()).add(anchor.hash)
        self._seq = 0
        self._hash = ORIGIN
        self._findings: list[Finding] = []
        self._compared = 0

    def take(self, record: Record) -> None:
        """Checks the next record."""
        if record.tenant_id != self._tenant_id:
            self._note(record.seq, "is another tenant's")
        if record.seq != self._seq + 1:
            self._note(record.seq, f"follows {self._seq}: records between are missing or repeated")
        elif record.previous != self._hash:
            self._note(record.seq, "does not carry the hash of the record before")
        if record.digest() != record.hash:
            self._note(record.seq, "was changed: its hash is another")
        for anchored in self._anchors.pop(record.seq, ()):
            self._compared += 1
            if anchored != record.hash:
                self._note(record.seq, "is not what was anchored")
        self._seq, self._hash = record.seq, record.hash

    def verdict(self, head: Anchor | None = None) -> Verdict:
        """What was found; `head` is the stored end of the chain, if it is known."""
        if head is not None and (head.seq, head.hash) != (self._seq, self._hash):
            self._note(head.seq, "is the stored end, which is not the last record")
        for seq in sorted(self._anchors):
            self._compared += len(self._anchors[seq])
            self._note(seq, "was anchored and is missing")
        return Verdict(self._seq, self._compared, tuple(self._findings))

    def _note(self, seq: int, text: str) -> None:
        if len(self._findings) < _MOST_FINDINGS:
            self._findings.append(Finding(seq, text))


def record_lines(records: Iterable[Record]) -> Iterator[str]:
    """Records as they are exported: a JSON object a line."""
    for record in records:
        yield json.dumps(
            {
                "tenant_id": str(record.tenant_id),
                "seq": record.seq,
                "at": record.at.astimezone(UTC).isoformat(timespec="microseconds"),
                "principal_id": str(record.principal_id) if record.principal_id else None,
                "key_id": str(record.key_id) if record.key_id else None,
                "action": record.action,
                "target": record.target,
                "outcome": record.outcome,
                "details": json.loads(record.details),
                "trace_id": record.trace_id,
                "previous": record.previous.hex(),
                "hash": record.hash.hex(),
            },
            ensure_ascii=False,
        )


def record_of_line(line: str) -> Record:
    """A record as it was exported.

    Raises:
        ValueError: for what is no record.
    """
    try:
        found = json.loads(line)
        return Record(
            UUID(found["tenant_id"]),
            int(found["seq"]),
            datetime.fromisoformat(found["at"]),
            UUID(found["principal_id"]) if found["principal_id"] else None,
            UUID(found["key_id"]) if found["key_id"] else None,
            str(found["action"]),
            str(found["target"]),
            str(found["outcome"]),
            details_text(found["details"]),
            str(found["trace_id"]),
            bytes.fromhex(found["previous"]),
            bytes.fromhex(found["hash"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("this is no record of an audit log") from error


def anchor_line(anchor: Anchor, at: datetime) -> str:
    """An anchor as it is written down."""
    return json.dumps(
        {
            "at": at.astimezone(UTC).isoformat(timespec="seconds"),
            "tenant_id": str(anchor.tenant_id),
            "seq": anchor.seq,
            "hash": anchor.hash.hex(),
        }
    )


def anchor_of_line(line: str) -> Anchor:
    """An anchor as it was written down.

    Raises:
        ValueError: for what is no anchor.
    """
    try:
        found = json.loads(line)
        return Anchor(UUID(found["tenant_id"]), int(found["seq"]), bytes.fromhex(found["hash"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("this is no anchor of an audit log") from error
