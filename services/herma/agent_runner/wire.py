"""Protos to the fold's values and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from herma.agent_runner.domain.ledger import Call, CallResult, CallState, Ledger, Message
from herma.agent_runner.domain.opening import Opening
from herma.agent_runner.domain.profile import Profile
from herma.agent_runner.domain.provider import ModelAnswer
from herma.api.lease.v1 import lease_pb2
from herma.api.ledger.v1 import ledger_pb2


def profile_of(lease: lease_pb2.Lease) -> Profile:
    """The profile version that the turn pinned; fields of other releases are passed over."""
    spec = json.loads(lease.profile.spec or b"{}")
    default = Profile()
    tools = spec.get("tools")
    return Profile(
        persona=spec.get("persona", default.persona),
        model=spec.get("model", default.model),
        tools=None if tools is None else frozenset(tools),
        max_iterations=spec.get("max_iterations", default.max_iterations),
    )


def ledger_of(lease: lease_pb2.Lease) -> Ledger:
    """What the fold starts from."""
    return Ledger(
        turn_id=lease.turn.id,
        messages=tuple(_message(message) for message in lease.history),
        system_prompt=lease.system_prompt,
        iterations=lease.iterations,
        max_iterations=profile_of(lease).max_iterations,
        interrupt_requested=lease.interrupt_requested,
        is_trusted=lease.trust == "trusted",
    )


def _message(message: ledger_pb2.Message) -> Message:
    return Message(
        role=message.role,
        content=message.content,
        turn_id=message.turn_id,
        calls=tuple(
            Call(call.id, call.tool, call.arguments, _call_state(call.state), call.instance)
            for call in message.calls
        ),
        call_id=message.call_id,
        context=message.context if message.HasField("context") else None,
    )


def _call_state(value: ledger_pb2.CallState.ValueType) -> CallState:
    return CallState[ledger_pb2.CallState.Name(value).removeprefix("CALL_STATE_")]


def begin_message(
    provider: str,
    model: str,
    parameters: dict[str, Any],
    attempt_context: str,
    opening: Opening | None,
) -> lease_pb2.Operation:
    """A model call is about to be made; with `opening`, what the turn's requests are built from."""
    return lease_pb2.Operation(
        begin_message=lease_pb2.BeginMessage(
            provider=provider,
            model=model,
            system_prompt=_valid(opening.recorded_prompt) if opening else "",
            provisional_prompt=opening.is_provisional if opening else False,
            turn_context=None if opening is None or opening.context is None else _valid(opening.context),
            parameters=json.dumps(parameters, sort_keys=True).encode(),
            attempt_context=attempt_context,
        )
    )


def discard_message(message_id: str, reason: str) -> lease_pb2.Operation:
    """A model call came to nothing."""
    return lease_pb2.Operation(
        discard_message=lease_pb2.DiscardMessage(message_id=message_id, reason=reason)
    )


def complete_message(message_id: str, answer: ModelAnswer) -> lease_pb2.Operation:
    """The model's whole answer."""
    usage = answer.usage
    return lease_pb2.Operation(
        complete_message=lease_pb2.CompleteMessage(
            message_id=message_id,
            content=_valid(answer.content),
            calls=[
                lease_pb2.ProposedCall(
                    provider_call_id=_valid(call.provider_call_id),
                    tool=_valid(call.tool),
                    arguments=_valid(call.arguments),
                )
                for call in answer.calls
            ],
            usage=ledger_pb2.Usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                reasoning_tokens=usage.reasoning_tokens,
            ),
            finish_reason=answer.finish_reason,
            response_id=answer.response_id,
            response_model=answer.model,
        )
    )


def allow_call(call_id: str, rule: str) -> lease_pb2.Operation:
    """The policy allows a call."""
    return lease_pb2.Operation(
        decide_call=lease_pb2.DecideCall(
            call_id=call_id, verdict=ledger_pb2.CALL_STATE_ALLOWED, rule=rule
        )
    )


def start_call(call_id: str, instance: str) -> lease_pb2.Operation:
    """The tool starts once this is durable."""
    return lease_pb2.Operation(start_call=lease_pb2.StartCall(call_id=call_id, instance=instance))


def complete_call(call_id: str, result: CallResult) -> lease_pb2.Operation:
    """The tool's result."""
    return lease_pb2.Operation(
        complete_call=lease_pb2.CompleteCall(
            call_id=call_id,
            state=ledger_pb2.CallState.Value(f"CALL_STATE_{result.state.name}"),
            content=_valid(result.content),
            is_error=result.is_error,
            details=json.dumps(result.details).encode() if result.details else b"",
        )
    )


def status(text: str, recalled: int | None = None) -> lease_pb2.Operation:
    """A line for people; `recalled` when it tells how many memories the turn uses."""
    return lease_pb2.Operation(status=lease_pb2.Status(text=text, recalled=recalled))


def finish(state: str, exit_reason: str, error: str) -> lease_pb2.Finish:
    """How the turn ended."""
    return lease_pb2.Finish(
        state=ledger_pb2.TurnState.Value(f"TURN_STATE_{state.upper()}"),
        exit_reason=exit_reason,
        error=_valid(error),
    )


def append_request(
    step: int, operations: Sequence[lease_pb2.Operation], end: lease_pb2.Finish | None
) -> lease_pb2.AppendRequest:
    """A step with its digest."""
    request = lease_pb2.AppendRequest(operations=operations)
    if end is not None:
        request.finish.CopyFrom(end)
    digest = hashlib.sha256(request.SerializeToString(deterministic=True)).digest()
    request.step = step
    request.digest = digest
    return request


def _valid(text: str) -> str:
    """Text that protobuf takes: lone surrogates from a model's JSON escapes are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
