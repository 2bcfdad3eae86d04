"""Protos to domain values and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp

from herma.api.lease.v1 import lease_pb2
from herma.api.ledger.v1 import ledger_pb2
from herma.api.profile.v1 import profile_pb2
from herma.api.session.v1 import session_pb2
from herma.common.errors import InvalidArgument
from herma.common.ids import parse_id
from herma.session_authority.domain import operations as ops
from herma.session_authority.domain.continuation import Continuation, check_continuation
from herma.session_authority.domain.model import (
    Call,
    Caller,
    CallState,
    Delta,
    Event,
    Lease,
    Message,
    Session,
    Turn,
    TurnState,
    Usage,
)
from herma.session_authority.domain.new_session import (
    ImportedMessage,
    NewSession,
    check_new_session,
    session_key,
)
from herma.session_authority.domain.profile import ProfileVersion


def caller_of(message: ledger_pb2.Caller) -> Caller:
    """The caller that an entrance names.

    Raises:
        InvalidArgument: when it names none.
    """
    return Caller(
        parse_id(message.tenant_id, "caller.tenant_id"),
        parse_id(message.principal_id, "caller.principal_id"),
        parse_id(message.key_id, "caller.key_id") if message.key_id else None,
    )


def timestamp(at: datetime | None) -> Timestamp | None:
    """A time; None stays unset."""
    if at is None:
        return None
    message = Timestamp()
    message.FromDatetime(at)
    return message


def turn_state(value: TurnState) -> ledger_pb2.TurnState.ValueType:
    """The proto's state."""
    return ledger_pb2.TurnState.Value(f"TURN_STATE_{value.name}")


def call_state(value: CallState) -> ledger_pb2.CallState.ValueType:
    """The proto's state."""
    return ledger_pb2.CallState.Value(f"CALL_STATE_{value.name}")


def call_message(call: Call) -> ledger_pb2.Call:
    """A call."""
    return ledger_pb2.Call(
        id=str(call.id),
        turn_id=str(call.turn_id),
        message_id=str(call.message_id),
        ordinal=call.ordinal,
        provider_call_id=call.provider_call_id,
        tool=call.tool,
        arguments=call.arguments,
        state=call_state(call.state),
        rule=call.rule,
        instance=call.instance,
        is_error=call.is_error,
    )


def turn_message(turn: Turn) -> ledger_pb2.Turn:
    """A turn with its calls."""
    parts = turn.traceparent.split("-")
    return ledger_pb2.Turn(
        id=str(turn.id),
        session_id=str(turn.session_id),
        kind=turn.kind,
        state=turn_state(turn.state),
        exit_reason=turn.exit_reason,
        attempt=turn.attempt,
        seq=turn.seq,
        usage=usage_message(turn.usage),
        trace_id=parts[1] if len(parts) == 4 else "",
        error=turn.error,
        created_at=timestamp(turn.created_at),
        started_at=timestamp(turn.started_at),
        ended_at=timestamp(turn.ended_at),
        calls=[call_message(call) for call in turn.calls],
    )


def usage_message(usage: Usage) -> ledger_pb2.Usage:
    """Tokens."""
    return ledger_pb2.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def message_message(message: Message) -> ledger_pb2.Message:
    """A transcript's entry."""
    return ledger_pb2.Message(
        id=str(message.id),
        turn_id=str(message.turn_id) if message.turn_id else "",
        position=message.position,
        role=message.role,
        content=message.content,
        calls=[call_message(call) for call in message.calls],
        call_id=str(message.call_id) if message.call_id else "",
        created_at=timestamp(message.created_at),
        context=message.context,
    )


def new_session_of(message: session_pb2.NewSession | session_pb2.CreateSessionRequest) -> NewSession:
    """A session to be made, checked.

    Raises:
        InvalidArgument: naming what is wrong.
    """
    new = NewSession(
        profile=message.profile,
        key=session_key(message.entrance, message.key),
        title=message.title,
        instructions=message.instructions,
        history=[ImportedMessage(entry.role, entry.content) for entry in message.history],
    )
    check_new_session(new)
    return new


def target_of(request: session_pb2.SubmitRequest) -> UUID | NewSession | Continuation:
    """Where a submission goes: a session, one to be made, or a turn to go on after.

    Raises:
        InvalidArgument: when it names none, or more than one.
    """
    named = [name for name in ("new_session", "continuation") if request.HasField(name)]
    if not named:
        return parse_id(request.session_id, "session_id")
    if request.session_id or len(named) > 1:
        raise InvalidArgument("two targets", fields={named[0]: "excludes other targets"})
    if named == ["new_session"]:
        return new_session_of(request.new_session)
    wanted = request.continuation
    after = Continuation(
        parse_id(wanted.turn_id, "continuation.turn_id"), wanted.profile, wanted.instructions
    )
    check_continuation(after)
    return after


def session_message(session: Session) -> session_pb2.Session:
    """A session."""
    return session_pb2.Session(
        id=str(session.id),
        profile=session.profile,
        key=session.key,
        title=session.title,
        state=session.state,
        created_at=timestamp(session.created_at),
        last_seq=session.last_seq,
        opening=session.opening,
    )


def stream_message(item: Event | Delta) -> session_pb2.SubscribeResponse:
    """What a subscriber gets."""
    if isinstance(item, Delta):
        return session_pb2.SubscribeResponse(
            delta=ledger_pb2.Delta(
                turn_id=str(item.turn_id),
                message_id=str(item.message_id),
                attempt=item.attempt,
                offset=item.offset,
                text=item.text,
            )
        )
    return session_pb2.SubscribeResponse(
        event=ledger_pb2.Event(
            seq=item.seq,
            kind=item.kind,
            turn_id=str(item.turn_id),
            at=timestamp(item.at),
            data=item.data.encode(),
        )
    )


def lease_message(lease: Lease, turn_token: str, ttl_seconds: float) -> lease_pb2.Lease:
    """A lease."""
    message = lease_pb2.Lease(
        tenant_id=str(lease.tenant_id),
        session_id=str(lease.session_id),
        principal_id=str(lease.principal_id),
        turn=turn_message(lease.turn),
        epoch=lease.epoch,
        last_step=lease.last_step,
        turn_token=turn_token,
        profile=lease_pb2.Profile(
            id=str(lease.profile.id),
            name=lease.profile.name,
            version=lease.profile.version,
            spec=lease.profile.spec.encode(),
        ),
        system_prompt=lease.system_prompt,
        history=[message_message(entry) for entry in lease.history],
        open_message_id=str(lease.open_message_id) if lease.open_message_id else "",
        traceparent=lease.turn.traceparent,
        previous_attempt=lease.previous_attempt,
        iterations=lease.iterations,
        interrupt_requested=lease.interrupt_requested,
        instructions=lease.instructions,
        trust=lease.trust,
    )
    message.ttl.FromMilliseconds(int(ttl_seconds * 1000))
    return message


def profile_message(profile: ProfileVersion) -> profile_pb2.Profile:
    """A profile at one version."""
    return profile_pb2.Profile(
        id=str(profile.id),
        name=profile.name,
        version=profile.version,
        spec=profile.spec.encode(),
        created_at=timestamp(profile.created_at),
    )


def delta_of(message: ledger_pb2.Delta, turn_id: UUID) -> Delta:
    """Streamed text of the turn that the token names.

    Raises:
        InvalidArgument: for impossible values.
    """
    if message.offset < 0 or not 0 < len(message.text) <= 65_536 or "\0" in message.text:
        raise InvalidArgument("the delta is malformed", fields={"delta": "offset or text"})
    return Delta(
        turn_id, parse_id(message.message_id, "message_id"), message.attempt, message.offset, message.text
    )


def step_of(request: lease_pb2.AppendRequest) -> ops.Step:
    """A step, its digest checked.

    Raises:
        InvalidArgument: when it is malformed or the digest is another's.
    """
    if request.digest != step_digest(request):
        raise InvalidArgument("the digest does not match", fields={"digest": "does not match"})
    return ops.Step(
        number=request.step,
        digest=request.digest,
        operations=[_operation(operation) for operation in request.operations],
        finish=_finish(request.finish) if request.HasField("finish") else None,
    )


def step_digest(request: lease_pb2.AppendRequest) -> bytes:
    """SHA-256 over the deterministic serialisation of the step without its number and digest."""
    bare = lease_pb2.AppendRequest(operations=request.operations)
    if request.HasField("finish"):
        bare.finish.CopyFrom(request.finish)
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).digest()


def _operation(message: lease_pb2.Operation) -> ops.Operation:
    kind = message.WhichOneof("kind")
    if kind == "begin_message":
        begin = message.begin_message
        return ops.BeginMessage(
            begin.provider,
            begin.model,
            _storable(begin.system_prompt),
            begin.parameters.decode() or "{}",
            begin.attempt_context,
            _storable(begin.turn_context) if begin.HasField("turn_context") else None,
            begin.provisional_prompt,
        )
    if kind == "discard_message":
        discard = message.discard_message
        return ops.DiscardMessage(parse_id(discard.message_id, "message_id"), discard.reason)
    if kind == "complete_message":
        return _complete_message(message.complete_message)
    if kind == "decide_call":
        decide = message.decide_call
        return ops.DecideCall(
            parse_id(decide.call_id, "call_id"), _call_state(decide.verdict), decide.rule
        )
    if kind == "start_call":
        start = message.start_call
        return ops.StartCall(parse_id(start.call_id, "call_id"), start.instance)
    if kind == "complete_call":
        complete = message.complete_call
        return ops.CompleteCall(
            parse_id(complete.call_id, "call_id"),
            _call_state(complete.state),
            _storable(complete.content),
            complete.is_error,
            complete.details.decode(),
        )
    if kind == "status":
        status = message.status
        recalled = status.recalled if status.HasField("recalled") else None
        return ops.Status(_storable(status.text), recalled)
    raise InvalidArgument("an operation is empty", fields={"operations": "one kind each"})


def _complete_message(message: lease_pb2.CompleteMessage) -> ops.CompleteMessage:
    return ops.CompleteMessage(
        message_id=parse_id(message.message_id, "message_id"),
        content=_storable(message.content),
        calls=[
            ops.ProposedCall(
                _storable(call.provider_call_id), _storable(call.tool), _storable(call.arguments)
            )
            for call in message.calls
        ],
        usage=Usage(
            message.usage.input_tokens,
            message.usage.output_tokens,
            message.usage.cache_read_tokens,
            message.usage.cache_write_tokens,
            message.usage.reasoning_tokens,
        ),
        finish_reason=message.finish_reason,
        response_id=message.response_id,
        response_model=message.response_model,
    )


def _finish(message: lease_pb2.Finish) -> ops.Finish:
    name = ledger_pb2.TurnState.Name(message.state).removeprefix("TURN_STATE_")
    try:
        state = TurnState[name]
    except KeyError as error:
        raise InvalidArgument("no such state", fields={"finish.state": "is not known"}) from error
    return ops.Finish(state, message.exit_reason, _storable(message.error))


def _call_state(value: ledger_pb2.CallState.ValueType) -> CallState:
    try:
        return CallState[ledger_pb2.CallState.Name(value).removeprefix("CALL_STATE_")]
    except (KeyError, ValueError) as error:
        raise InvalidArgument("no such state", fields={"state": "is not known"}) from error


def _storable(text: str) -> str:
    """What a model or tool said, without the one character that PostgreSQL cannot store."""
    return text.replace("\0", "�")


def ids(values: Iterable[UUID]) -> list[str]:
    """Ids as text."""
    return [str(value) for value in values]
