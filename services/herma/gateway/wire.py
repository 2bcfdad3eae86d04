"""The authority's messages as the bodies of the HTTP API."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.gateway.bodies import (
    CallBody,
    MessageBody,
    SessionBody,
    TurnBody,
    UsageBody,
)


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
        opening=session.opening,
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


def usage_body(usage: ledger_pb2.Usage) -> UsageBody:
    """Tokens."""
    return UsageBody(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def turn_body(turn: ledger_pb2.Turn) -> TurnBody:
    """A turn."""
    return TurnBody(
        id=turn.id,
        session_id=turn.session_id,
        kind=turn.kind,
        state=ledger_pb2.TurnState.Name(turn.state).removeprefix("TURN_STATE_").lower(),
        exit_reason=turn.exit_reason,
        error=turn.error,
        attempt=turn.attempt,
        seq=turn.seq,
        usage=usage_body(turn.usage),
        calls=[call_body(call) for call in turn.calls],
        trace_id=turn.trace_id,
        created_at=when(turn.created_at),
        started_at=when(turn.started_at),
        ended_at=when(turn.ended_at),
    )
