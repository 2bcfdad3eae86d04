"""Appends steps to a ledger: fenced by the lease, all or nothing, repeatable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatchmethod
from uuid import UUID

import asyncpg

from herma.common.errors import InvalidArgument, LeaseLost, StepConflict
from herma.common.postgres import Database
from herma.common.turn_token import TurnIdentity
from herma.session_authority.domain.model import CallState, StepOutcome
from herma.session_authority.domain.operations import (
    BeginMessage,
    CompleteCall,
    CompleteMessage,
    DecideCall,
    DiscardMessage,
    Finish,
    StartCall,
    Status,
    Step,
    check_step,
    check_transition,
)
from herma.session_authority.store.endings import (
    close_call,
    discard_open_message,
    end_turn,
)
from herma.session_authority.store.ground import OpenTurn, read_ground
from herma.session_authority.store.locked_session import LockedSession, StepRecord, lock_of

# A message is open: what its model call is made from, and on the turn where an interruption finds it.
_BEGIN = """
    WITH asked AS (
        INSERT INTO authority.model_calls (tenant_id, message_id, turn_id, attempt, provider, model,
                                           parameters)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
    )
    UPDATE authority.turns SET open_message_id = $2, attempt_context = $8
    WHERE tenant_id = $1 AND id = $3
"""

# An open message is answered: it is in the transcript, paid for, and what was streamed of it is pruned.
_COMPLETE = """
    WITH turn AS (
        UPDATE authority.turns SET open_message_id = NULL, iterations = iterations + 1,
            input_tokens = input_tokens + $7, output_tokens = output_tokens + $8,
            cache_read_tokens = cache_read_tokens + $9, cache_write_tokens = cache_write_tokens + $10,
            reasoning_tokens = reasoning_tokens + $11
        WHERE tenant_id = $1 AND id = $4
        RETURNING principal_id, trust
    ), asked AS (
        UPDATE authority.model_calls SET outcome = 'completed', ended_at = now(), finish_reason = $12,
            response_id = $13, response_model = $14
        WHERE tenant_id = $1 AND message_id = $3
    ), streamed AS (
        DELETE FROM authority.deltas WHERE tenant_id = $1 AND message_id = $3
    )
    INSERT INTO authority.messages (tenant_id, session_id, id, turn_id, position, role, content,
                                    principal_id, trust)
    SELECT $1, $2, $3, $4, $5, 'assistant', $6, principal_id, trust FROM turn
"""


class LedgerStore:
    """Writes steps."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def append(self, identity: TurnIdentity, step: Step) -> StepOutcome:
        """Writes one step, or gives the last one's answer again.

        Raises:
            LeaseLost: when the lease is not the newest.  A finished turn's last step is still answered.
            StepConflict: when the step is neither the next nor a repeat of the last.
            InvalidArgument: for a step that this ledger cannot take.
        """
        check_step(step)
        try:
            return await self._append(identity, step)
        except asyncpg.DataError as error:
            raise InvalidArgument("the step holds what cannot be stored") from error

    async def _append(self, identity: TurnIdentity, step: Step) -> StepOutcome:
        tenant_id, session_id = identity.tenant_id, identity.session_id
        lock = lock_of(tenant_id, session_id)
        async with self._database.transaction(tenant_id, first=lock) as connection:
            ground = await read_ground(connection, identity, step)
            if ground is None:
                raise LeaseLost()
            if ground.repeated is not None:
                return ground.repeated
            if not ground.held:
                raise LeaseLost()
            if step.number != ground.turn.last_step + 1:
                raise StepConflict(
                    f"step {step.number} does not follow {ground.turn.last_step}, or differs from it"
                )
            writer = _StepWriter(ground.session, ground.turn, self._new_id)
            for operation in step.operations:
                await writer.write(operation)
            if step.finish is not None:
                await writer.write(step.finish)
            is_runnable = await ground.session.flush(
                StepRecord(
                    ground.turn.id,
                    step.number,
                    identity.epoch,
                    step.digest,
                    writer.message_ids,
                    writer.call_ids,
                )
            )
            return StepOutcome(
                tuple(writer.message_ids),
                tuple(writer.call_ids),
                ground.session.last_seq,
                ground.turn.interrupt_requested,
                is_runnable,
            )


@dataclass(slots=True)
class _StepWriter:
    session: LockedSession
    turn: OpenTurn
    new_id: Callable[[], UUID]
    message_ids: list[UUID] = field(default_factory=list)
    call_ids: list[UUID] = field(default_factory=list)

    @singledispatchmethod
    async def write(self, operation: object) -> None:
        raise InvalidArgument(f"unknown operation {type(operation).__name__}")

    @write.register
    async def _(self, operation: BeginMessage) -> None:
        session = self.session
        if self.turn.open_message_id is not None:
            await discard_open_message(session, self.turn.id, "superseded")
        if operation.system_prompt:
            session.new_system_prompt = operation.system_prompt
            session.new_prompt_version = self.turn.profile_version
            session.new_prompt_turn = self.turn.id if operation.provisional_prompt else None
        if operation.turn_context is not None:
            await self._keep_context(operation.turn_context)
        message_id = self.new_id()
        await session.connection.execute(
            _BEGIN,
            session.tenant_id,
            message_id,
            self.turn.id,
            self.turn.attempt,
            operation.provider,
            operation.model,
            operation.parameters or "{}",
            operation.attempt_context,
        )
        self.turn.open_message_id = message_id
        self.message_ids.append(message_id)
        session.emit(
            "message.started",
            self.turn.id,
            {
                "message_id": str(message_id),
                "attempt": self.turn.attempt,
                "provider": operation.provider,
                "model": operation.model,
            },
        )

    async def _keep_context(self, context: str) -> None:
        await self.session.connection.execute(
            """
            UPDATE authority.messages SET context = $4
            WHERE tenant_id = $1 AND context IS NULL AND id = (
                SELECT id FROM authority.messages
                WHERE tenant_id = $1 AND session_id = $2 AND turn_id = $3 AND role = 'user'
                ORDER BY position DESC LIMIT 1)
            """,
            self.session.tenant_id,
            self.session.id,
            self.turn.id,
            context,
        )

    @write.register
    async def _(self, operation: DiscardMessage) -> None:
        self._check_open(operation.message_id)
        await discard_open_message(self.session, self.turn.id, operation.reason)
        self.turn.open_message_id = None

    @write.register
    async def _(self, operation: CompleteMessage) -> None:
        session = self.session
        self._check_open(operation.message_id)
        usage = operation.usage
        await session.connection.execute(
            _COMPLETE,
            session.tenant_id,
            session.id,
            operation.message_id,
            self.turn.id,
            session.take_position(),
            operation.content,
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
            operation.finish_reason,
            operation.response_id,
            operation.response_model,
        )
        self.turn.open_message_id = None
        session.emit(
            "message.completed",
            self.turn.id,
            {
                "message_id": str(operation.message_id),
                "attempt": self.turn.attempt,
                "content": operation.content,
                "finish_reason": operation.finish_reason,
            },
        )
        await self._propose(operation)

    async def _propose(self, message: CompleteMessage) -> None:
        session = self.session
        rows = []
        for ordinal, call in enumerate(message.calls):
            call_id = self.new_id()
            self.call_ids.append(call_id)
            rows.append(
                (
                    session.tenant_id,
                    call_id,
                    session.id,
                    self.turn.id,
                    message.message_id,
                    ordinal,
                    session.take_position(),
                    call.provider_call_id,
                    call.tool,
                    call.arguments,
                )
            )
            session.emit(
                "call.proposed",
                self.turn.id,
                {
                    "call_id": str(call_id),
                    "message_id": str(message.message_id),
                    "tool": call.tool,
                    "arguments": call.arguments,
                },
            )
        if rows:
            self.turn.has_open_calls = True
            await session.connection.executemany(
                """
                INSERT INTO authority.calls (tenant_id, id, session_id, turn_id, message_id, ordinal,
                                             position, provider_call_id, tool, arguments, state)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'proposed')
                """,
                rows,
            )

    @write.register
    async def _(self, operation: DecideCall) -> None:
        await self._move(operation.call_id, operation.verdict)
        await self.session.connection.execute(
            "UPDATE authority.calls SET state = $3, rule = $4 WHERE tenant_id = $1 AND id = $2",
            self.session.tenant_id,
            operation.call_id,
            operation.verdict.value,
            operation.rule,
        )

    @write.register
    async def _(self, operation: StartCall) -> None:
        tool = await self._move(operation.call_id, CallState.RUNNING)
        await self.session.connection.execute(
            """
            UPDATE authority.calls SET state = 'running', instance = $3,
                started_at = coalesce(started_at, now())
            WHERE tenant_id = $1 AND id = $2
            """,
            self.session.tenant_id,
            operation.call_id,
            operation.instance,
        )
        self.session.emit(
            "call.running",
            self.turn.id,
            {"call_id": str(operation.call_id), "tool": tool, "attempt": self.turn.attempt},
        )

    @write.register
    async def _(self, operation: CompleteCall) -> None:
        await self._move(operation.call_id, operation.state)
        await close_call(
            self.session,
            operation.call_id,
            operation.state,
            operation.content,
            operation.is_error,
            operation.details or None,
            self.new_id,
        )

    @write.register
    async def _(self, operation: Status) -> None:
        data: dict[str, object] = {"text": operation.text}
        if operation.recalled is not None:
            data["recalled"] = operation.recalled
        self.session.emit("status", self.turn.id, data)

    @write.register
    async def _(self, operation: Finish) -> None:
        await end_turn(
            self.session,
            self.turn.id,
            operation.state,
            operation.exit_reason,
            operation.error,
            self.new_id,
            tidy=not self.turn.has_open_calls and self.turn.open_message_id is None,
        )

    def _check_open(self, message_id: UUID) -> None:
        if self.turn.open_message_id != message_id:
            raise InvalidArgument("the message is not open", fields={"message_id": "is not open"})

    async def _move(self, call_id: UUID, wanted: CallState) -> str:
        row = await self.session.connection.fetchrow(
            """
            SELECT state, tool FROM authority.calls
            WHERE tenant_id = $1 AND id = $2 AND turn_id = $3
            """,
            self.session.tenant_id,
            call_id,
            self.turn.id,
        )
        if row is None:
            raise InvalidArgument("no such call in this turn", fields={"call_id": "is not known"})
        check_transition(call_id, CallState(row["state"]), wanted)
        tool: str = row["tool"]
        return tool
