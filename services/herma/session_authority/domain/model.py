"""The ledger's records as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class TurnState(StrEnum):
    """Where a turn stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def is_terminal(self) -> bool:
        """No transition leads out of it."""
        return self not in (TurnState.QUEUED, TurnState.RUNNING, TurnState.WAITING)


class CallState(StrEnum):
    """Where a call stands."""

    PROPOSED = "proposed"
    ALLOWED = "allowed"
    DENIED = "denied"
    AWAITING = "awaiting"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    OUTCOME_UNKNOWN = "outcome_unknown"

    @property
    def is_closed(self) -> bool:
        """Its result is in the transcript."""
        return self in (CallState.COMPLETED, CallState.CANCELLED, CallState.OUTCOME_UNKNOWN)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, after authentication."""

    tenant_id: UUID
    principal_id: UUID
    # The key that was presented; None for a token.
    key_id: UUID | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in the provider's own count."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation as its owner sees it."""

    id: UUID
    profile: str
    key: str
    title: str
    state: str
    created_at: datetime
    last_seq: int
    # How its first input begins.
    opening: str


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call."""

    id: UUID
    turn_id: UUID
    message_id: UUID
    ordinal: int
    provider_call_id: str
    tool: str
    arguments: str
    state: CallState
    rule: str
    instance: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a transcript.  An imported one belongs to no turn."""

    id: UUID
    turn_id: UUID | None
    position: int
    role: str
    content: str
    created_at: datetime
    call_id: UUID | None = None
    calls: Sequence[Call] = ()
    # Of a user message: what the model reads beside it; None when nothing was decided yet.
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One execution."""

    id: UUID
    session_id: UUID
    kind: str
    state: TurnState
    exit_reason: str
    error: str
    attempt: int
    seq: int
    usage: Usage
    traceparent: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    calls: Sequence[Call] = ()
    # What the entrance that admitted it wants to find again; empty where nobody asks for it.
    memo: str = ""


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What a turn was asked.

    `earlier` is what its session began with; empty unless the turn is the session's first.
    """

    content: str
    earlier: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a session's stream.  `data` is a JSON object as text."""

    seq: int
    kind: str
    turn_id: UUID
    at: datetime
    data: str


@dataclass(frozen=True, slots=True)
class Delta:
    """Streamed text of an open message; `offset` in code points."""

    turn_id: UUID
    message_id: UUID
    attempt: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A pinned profile version.  `spec` is a JSON object as text."""

    id: UUID
    name: str
    version: int
    spec: str


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a submission: repeated verbatim for the same idempotency key."""

    turn_id: UUID
    session_id: UUID
    position: int
    cursor: int
    # The session's next turn may be claimed now; not part of the answer.
    is_runnable: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one session's ledger, with what the fold starts from."""

    tenant_id: UUID
    session_id: UUID
    principal_id: UUID
    turn: Turn
    trust: str
    epoch: int
    last_step: int
    profile: Profile
    system_prompt: str
    history: Sequence[Message]
    open_message_id: UUID | None
    previous_attempt: str
    iterations: int
    interrupt_requested: bool
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The answer to an append: repeated verbatim for the same step and digest."""

    message_ids: Sequence[UUID] = field(default_factory=tuple)
    call_ids: Sequence[UUID] = field(default_factory=tuple)
    last_seq: int = 0
    interrupt_requested: bool = False
    # The session's next turn may be claimed now; not part of the answer.
    is_runnable: bool = field(default=False, compare=False)
