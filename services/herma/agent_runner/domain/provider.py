"""What the fold asks of a model provider, and the classes of its failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias

from herma.agent_runner.domain.ledger import Usage


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it.  `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call.  `messages` are in the shape of OpenAI's chat completions, built byte-stable."""

    model: str
    messages: Sequence[dict[str, Any]]
    tools: Sequence[ToolDefinition]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of streamed text."""

    text: str


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A tool call as the model wrote it."""

    provider_call_id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A whole answer; always the last thing of a stream."""

    content: str
    calls: Sequence[WantedCall]
    usage: Usage
    finish_reason: str
    response_id: str = ""
    model: str = ""


StreamItem: TypeAlias = TextDelta | ModelAnswer


class FailureClass(Enum):
    """What a failure asks for."""

    # The same request may succeed later.
    TRANSIENT = "transient"
    # The key does not work.
    CREDENTIAL = "credential"
    # The request is longer than the model reads.
    CONTEXT = "context"
    # The request will never succeed.
    PERMANENT = "permanent"


class ProviderError(Exception):
    """A model call failed.

    Args:
        failure: What to do about it.
        message: In plain words, for people; no secrets.
        retry_after: Seconds, if the provider named them.
    """

    def __init__(self, failure: FailureClass, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message
        self.retry_after = retry_after


class Provider(Protocol):
    """A way to a model."""

    @property
    def name(self) -> str:
        """As in `gen_ai.provider.name`."""
        ...

    @property
    def model(self) -> str:
        """The model that is asked."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Text as it comes, then the whole answer.

        Closing the iterator closes the connection.

        Raises:
            ProviderError: for every failure; a partial answer is never passed off as whole.
        """
        ...
