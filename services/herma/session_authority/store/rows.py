"""Rows to domain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias
from uuid import UUID

import asyncpg

from herma.session_authority.domain.model import (
    Call,
    CallState,
    Message,
    Turn,
    TurnState,
    Usage,
)

Row: TypeAlias = asyncpg.Record

TURN_COLUMNS = """
    t.id, t.session_id, t.kind, t.state, t.exit_reason, t.error, t.attempt, t.seq, t.input_tokens,
    t.output_tokens, t.cache_read_tokens, t.cache_write_tokens, t.reasoning_tokens, t.traceparent,
    t.created_at, t.started_at, t.ended_at
"""

CALL_COLUMNS = """
    c.id, c.turn_id, c.message_id, c.ordinal, c.provider_call_id, c.tool, c.arguments, c.state,
    c.rule, c.instance, c.is_error
"""


def turn_of(row: Row, calls: Iterable[Call] = ()) -> Turn:
    """A turn from its columns."""
    return Turn(
        id=row["id"],
        session_id=row["session_id"],
        kind=row["kind"],
        state=TurnState(row["state"]),
        exit_reason=row["exit_reason"],
        error=row["error"],
        attempt=row["attempt"],
        seq=row["seq"],
        usage=Usage(
            row["input_tokens"],
            row["output_tokens"],
            row["cache_read_tokens"],
            row["cache_write_tokens"],
            row["reasoning_tokens"],
        ),
        traceparent=row["traceparent"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        calls=tuple(calls),
        memo=row.get("memo", ""),
    )


def call_of(row: Row) -> Call:
    """A call from its columns."""
    return Call(
        id=row["id"],
        turn_id=row["turn_id"],
        message_id=row["message_id"],
        ordinal=row["ordinal"],
        provider_call_id=row["provider_call_id"],
        tool=row["tool"],
        arguments=row["arguments"],
        state=CallState(row["state"]),
        rule=row["rule"],
        instance=row["instance"],
        is_error=row["is_error"],
    )


def messages_of(rows: Iterable[Row], calls: Iterable[Call]) -> list[Message]:
    """Messages in order, each with its calls."""
    by_message: dict[UUID, list[Call]] = {}
    for call in calls:
        by_message.setdefault(call.message_id, []).append(call)
    return [
        Message(
            id=row["id"],
            turn_id=row["turn_id"],
            position=row["position"],
            role=row["role"],
            content=row["content"],
            created_at=row["created_at"],
            call_id=row["call_id"],
            calls=tuple(by_message.get(row["id"], ())),
            context=row["context"],
        )
        for row in rows
    ]
