"""One step of the fold: ask the model."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from herma.agent_runner import wire
from herma.agent_runner.deltas import DeltaPublisher, DeltaStream
from herma.agent_runner.domain.ledger import Ledger
from herma.agent_runner.domain.opening import Opening
from herma.agent_runner.domain.prompt import render_messages
from herma.agent_runner.domain.provider import (
    FailureClass,
    ModelAnswer,
    ModelRequest,
    Provider,
    ProviderError,
    TextDelta,
    ToolDefinition,
)
from herma.agent_runner.journal import Journal
from herma.agent_runner.lease_keeper import LeaseKeeper
from herma.api.lease.v1 import lease_pb2

_MAX_TRIES = 6
_MAX_PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class Answered:
    """The model answered; the message is open until the answer is appended."""

    message_id: str
    answer: ModelAnswer


class ModelStep:
    """Asks one provider on behalf of one turn.

    Args:
        model: The model that the profile names; empty for the provider's own.
    """

    def __init__(
        self,
        provider: Provider,
        deltas: DeltaStream,
        journal: Journal,
        keeper: LeaseKeeper,
        attempt: int,
        session_id: str,
        attempt_context: str,
        model: str = "",
    ) -> None:
        self._provider = provider
        self._model = model or provider.model
        self._deltas = deltas
        self._journal = journal
        self._keeper = keeper
        self._attempt = attempt
        self._session_id = session_id
        self._attempt_context = attempt_context
        self._tracer = trace.get_tracer("herma.agent_runner")

    async def ask(self, ledger: Ledger, opening: Opening, tools: list[ToolDefinition]) -> Answered:
        """Records the request, then streams the answer; a transient failure is tried again.

        Cancelling it closes the provider's connection.

        Raises:
            ProviderError: when trying again is useless or was tried enough.
            LeaseLost: when the lease is.
        """
        request = ModelRequest(self._model, render_messages(ledger, opening.system_prompt), tools)
        for number in range(1, _MAX_TRIES + 1):
            begin = wire.begin_message(
                self._provider.name,
                self._model,
                {"tools": [tool.name for tool in tools], "try": number},
                self._attempt_context,
                opening if number == 1 else None,
            )
            told = _told(opening) if number == 1 else []
            # Beginning a message voids the one before it.
            message_id = (await self._journal.append([begin, *told])).message_ids[0]
            try:
                return Answered(message_id, await self._stream(ledger, message_id, request))
            except ProviderError as error:
                if error.failure is not FailureClass.TRANSIENT or number == _MAX_TRIES:
                    await self._journal.append([wire.discard_message(message_id, "provider_error")])
                    raise
                pause = error.retry_after
                if pause is None:
                    pause = min(0.25 * 2**number, 8.0) * (0.5 + random.random())  # noqa: S311  # jitter
                await self._journal.append(
                    [
                        wire.discard_message(message_id, "provider_error"),
                        wire.status(f"{error.message} Trying again."),
                    ]
                )
                await asyncio.sleep(min(pause, _MAX_PAUSE))
        raise AssertionError("the last try returns or raises")

    async def _stream(self, ledger: Ledger, message_id: str, request: ModelRequest) -> ModelAnswer:
        publisher = DeltaPublisher(self._deltas, self._keeper, ledger.turn_id, message_id, self._attempt)
        with self._tracer.start_as_current_span(
            f"chat {request.model}",
            kind=SpanKind.CLIENT,
            record_exception=False,
            set_status_on_exception=False,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": self._provider.name,
                "gen_ai.request.model": request.model,
                "gen_ai.request.stream": True,
                "gen_ai.conversation.id": self._session_id,
            },
        ) as span:
            try:
                async with aclosing(self._provider.stream(request)) as items:  # type: ignore[type-var]  # a generator
                    async for item in items:
                        if isinstance(item, TextDelta):
                            publisher.put(item.text)
                            continue
                        span.set_attributes(
                            {
                                "gen_ai.response.finish_reasons": [item.finish_reason],
                                "gen_ai.response.id": item.response_id,
                                "gen_ai.response.model": item.model,
                                "gen_ai.usage.input_tokens": item.usage.input_tokens,
                                "gen_ai.usage.output_tokens": item.usage.output_tokens,
                                "gen_ai.usage.cache_read.input_tokens": item.usage.cache_read_tokens,
                                "gen_ai.usage.reasoning.output_tokens": item.usage.reasoning_tokens,
                            }
                        )
                        return item
                raise ProviderError(FailureClass.TRANSIENT, "The model's answer was cut off.")
            except ProviderError as error:
                span.set_attribute("error.type", error.failure.value)
                span.set_status(Status(StatusCode.ERROR))
                raise
            finally:
                await publisher.close()


def _told(opening: Opening) -> list[lease_pb2.Operation]:
    """What people are told of the recall."""
    if opening.failed:
        return [wire.status("Memory does not answer: this turn goes on without what was told earlier.")]
    if not opening.recalled:
        return []
    noun = "memory" if opening.recalled == 1 else "memories"
    return [wire.status(f"{opening.recalled} {noun} used", opening.recalled)]
