"""The one way in which a turn ends: every open call is closed and the lease is gone, together."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from herma.session_authority.domain.model import CallState, TurnState
from herma.session_authority.store.locked_session import LockedSession

_CANCELLED = "The call was cancelled before it ran."
_UNKNOWN = (
    "The outcome of this call is unknown: it was started, and its result was lost. "
    "It may or may not have taken effect."
)
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


async def end_turn(
    session: LockedSession,
    turn_id: UUID,
    state: TurnState,
    exit_reason: str,
    error: str,
    new_id: Callable[[], UUID],
    *,
    tidy: bool = False,
) -> None:
    """Brings a turn of a locked session to a terminal state; the caller flushes the session.

    Args:
        tidy: The caller knows that neither a message nor a call of the turn is open.
    """
    if not tidy:
        await _tidy_up(session, turn_id, new_id)
    ended = await session.connection.fetchrow(
        """
        WITH freed AS (
            DELETE FROM authority.leases WHERE tenant_id = $1 AND session_id = $7 AND turn_id = $2
            RETURNING true
        )
        UPDATE authority.turns SET state = $3, exit_reason = $4, error = $5, ended_at = now(),
            ended_seq = $6, started_at = coalesce(started_at, now()), open_message_id = NULL
        WHERE tenant_id = $1 AND id = $2
        RETURNING input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                  reasoning_tokens, attempt, EXISTS (SELECT FROM freed) AS leased
        """,
        session.tenant_id,
        turn_id,
        state.value,
        exit_reason,
        error,
        session.last_seq + 1,
        session.id,
    )
    assert ended is not None
    session.emit(
        "turn.ended",
        turn_id,
        {
            "state": state.value,
            "exit_reason": exit_reason,
            **({"error": error} if error else {}),
            "attempt": ended["attempt"],
            "usage": {name: ended[name] for name in _TOKENS},
        },
    )
    if ended["leased"]:
        # Not for an unleased turn: that would fence out the runner of the session's running one.
        session.raise_epoch()


async def _tidy_up(session: LockedSession, turn_id: UUID, new_id: Callable[[], UUID]) -> None:
    """Voids the open message and closes each open call."""
    rows = await session.connection.fetch(
        """
        SELECT t.open_message_id, c.id, c.state FROM authority.turns t
        LEFT JOIN authority.calls c ON c.tenant_id = t.tenant_id AND c.turn_id = t.id
             AND c.state IN ('proposed', 'allowed', 'denied', 'awaiting', 'running')
        WHERE t.tenant_id = $1 AND t.id = $2 ORDER BY c.position
        """,
        session.tenant_id,
        turn_id,
    )
    if rows[0]["open_message_id"] is not None:
        await discard_open_message(session, turn_id, "turn_ended")
    for row in rows:
        if row["id"] is None:
            continue
        running = row["state"] == CallState.RUNNING
        await close_call(
            session,
            row["id"],
            CallState.OUTCOME_UNKNOWN if running else CallState.CANCELLED,
            _UNKNOWN if running else _CANCELLED,
            True,
            None,
            new_id,
        )


async def discard_open_message(session: LockedSession, turn_id: UUID, reason: str) -> None:
    """Voids the message that the turn's newest model call began, if it is still open."""
    row = await session.connection.fetchrow(
        """
        UPDATE authority.turns t SET open_message_id = NULL
        FROM authority.turns old
        WHERE t.tenant_id = $1 AND t.id = $2 AND old.tenant_id = $1 AND old.id = $2
          AND old.open_message_id IS NOT NULL
        RETURNING old.open_message_id AS message_id
        """,
        session.tenant_id,
        turn_id,
    )
    if row is None:
        return
    streamed = await close_model_call(session, row["message_id"], "discarded")
    void = {"message_id": str(row["message_id"]), "reason": reason, "streamed": streamed}
    session.emit("message.discarded", turn_id, void)


async def close_model_call(session: LockedSession, message_id: UUID, outcome: str) -> bool:
    """Records how a model call came out and prunes what was streamed of it; whether there was any."""
    await session.connection.execute(
        """
        UPDATE authority.model_calls SET outcome = $3, ended_at = now()
        WHERE tenant_id = $1 AND message_id = $2
        """,
        session.tenant_id,
        message_id,
        outcome,
    )
    pruned = await session.connection.execute(
        "DELETE FROM authority.deltas WHERE tenant_id = $1 AND message_id = $2",
        session.tenant_id,
        message_id,
    )
    return bool(pruned != "DELETE 0")


async def close_call(
    session: LockedSession,
    call_id: UUID,
    state: CallState,
    content: str,
    is_error: bool,
    details: str | None,
    new_id: Callable[[], UUID],
) -> None:
    """Pairs a call with its result: a tool message at the place that was kept for it."""
    row = await session.connection.fetchrow(
        """
        UPDATE authority.calls SET state = $3, is_error = $4, details = $5, ended_at = now()
        WHERE tenant_id = $1 AND id = $2
        RETURNING turn_id, message_id, position, tool, ordinal
        """,
        session.tenant_id,
        call_id,
        state.value,
        is_error,
        details,
    )
    assert row is not None
    await session.connection.execute(
        """
        INSERT INTO authority.messages (tenant_id, session_id, id, turn_id, position, role, content,
                                        call_id, principal_id, trust)
        SELECT $1, $2, $3, $4, $5, 'tool', $6, $7, t.principal_id, t.trust
        FROM authority.turns t WHERE t.tenant_id = $1 AND t.id = $4
        """,
        session.tenant_id,
        session.id,
        new_id(),
        row["turn_id"],
        row["position"],
        content,
        call_id,
    )
    session.emit(
        "call.completed",
        row["turn_id"],
        {
            "call_id": str(call_id),
            "message_id": str(row["message_id"]),
            "tool": row["tool"],
            "state": state.value,
            "is_error": is_error,
            "content": content,
        },
    )
