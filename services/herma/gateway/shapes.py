"""The bodies of the HTTP API, and how protos fill them."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import BaseModel, ConfigDict, Field

from herma.api.identity.v1 import identity_pb2
from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewSession(_Request):
    """Makes a session."""

    profile: str = Field("", max_length=200)
    key: str = Field("", max_length=200)
    title: str = Field("", max_length=200)


class NewMessage(_Request):
    """Says something."""

    content: str
    mode: str = "queue"


class NewTenant(_Request):
    """Makes a tenant."""

    name: str


class NewKey(_Request):
    """Makes a key."""

    name: str = Field("", max_length=200)
    scopes: list[str] = Field(default_factory=list, max_length=10)
    expires_at: datetime | None = None


class Problem(BaseModel):
    """A refusal (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    reason: str


class SessionBody(BaseModel):
    """A session."""

    id: str
    profile: str
    key: str
    title: str
    state: str
    created_at: datetime | None
    last_seq: int


class SessionPage(BaseModel):
    """A page of sessions."""

    items: list[SessionBody]
    next_page_token: str


class CallBody(BaseModel):
    """A tool call."""

    id: str
    tool: str
    arguments: str
    state: str
    rule: str
    is_error: bool


class MessageBody(BaseModel):
    """An entry of a transcript."""

    id: str
    turn_id: str
    role: str
    content: str
    calls: list[CallBody]
    call_id: str
    created_at: datetime | None


class MessagePage(BaseModel):
    """A page of a transcript."""

    items: list[MessageBody]
    next_page_token: str


class Admitted(BaseModel):
    """A turn was admitted."""

    turn_id: str
    session_id: str
    seq: int
    cursor: int


class UsageBody(BaseModel):
    """Tokens."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int


class TurnBody(BaseModel):
    """A turn."""

    id: str
    session_id: str
    kind: str
    state: str
    exit_reason: str
    error: str
    attempt: int
    seq: int
    usage: UsageBody
    calls: list[CallBody]
    trace_id: str
    created_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


class TenantBody(BaseModel):
    """A tenant."""

    id: str
    name: str


class CreatedTenant(BaseModel):
    """A new tenant and its owner's key, which is shown only here."""

    tenant: TenantBody
    key: str


class KeyBody(BaseModel):
    """A key without its secret."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    created_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


class CreatedKey(KeyBody):
    """A new key; `secret` is shown only here."""

    secret: str


class KeyPage(BaseModel):
    """Keys."""

    items: list[KeyBody]
    next_page_token: str = ""


def when(stamp: Timestamp) -> datetime | None:
    """A time; None when unset."""
    return stamp.ToDatetime(UTC) if stamp.seconds or stamp.nanos else None


def session_body(session: session_pb2.Session) -> SessionBody:
    """A session."""
    return SessionBody(
        id=session.id,
        profile=session.profile,
        key=session.key,
        title=session.title,
        state=session.state,
        created_at=when(session.created_at),
        last_seq=session.last_seq,
    )


def call_body(call: ledger_pb2.Call) -> CallBody:
    """A call."""
    return CallBody(
        id=call.id,
        tool=call.tool,
        arguments=call.arguments,
        state=ledger_pb2.CallState.Name(call.state).removeprefix("CALL_STATE_").lower(),
        rule=call.rule,
        is_error=call.is_error,
    )


def message_body(message: ledger_pb2.Message) -> MessageBody:
    """A transcript's entry."""
    return MessageBody(
        id=message.id,
        turn_id=message.turn_id,
        role=message.role,
        content=message.content,
        calls=[call_body(call) for call in message.calls],
        call_id=message.call_id,
        created_at=when(message.created_at),
    )


def turn_body(turn: ledger_pb2.Turn) -> TurnBody:
    """A turn."""
    usage = turn.usage
    return TurnBody(
        id=turn.id,
        session_id=turn.session_id,
        kind=turn.kind,
        state=ledger_pb2.TurnState.Name(turn.state).removeprefix("TURN_STATE_").lower(),
        exit_reason=turn.exit_reason,
        error=turn.error,
        attempt=turn.attempt,
        seq=turn.seq,
        usage=UsageBody(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            reasoning_tokens=usage.reasoning_tokens,
        ),
        calls=[call_body(call) for call in turn.calls],
        trace_id=turn.trace_id,
        created_at=when(turn.created_at),
        started_at=when(turn.started_at),
        ended_at=when(turn.ended_at),
    )


def key_body(key: identity_pb2.Key) -> KeyBody:
    """A key."""
    return KeyBody(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        scopes=list(key.scopes),
        created_at=when(key.created_at),
        expires_at=when(key.expires_at),
        revoked_at=when(key.revoked_at),
    )
