"""A turn's answer in the words of OpenAI: one completion, or chunks of it.

Source: OpenAI API reference, "The chat completion object" and "The chat completion chunk object".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from herma.gateway.completions.bodies import AnswerMessage, ChatCompletion, Choice
from herma.gateway.completions.outcome import Answered, Failed
from herma.gateway.shapes import openai_error
from herma.gateway.sse import data_line

_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Wording:
    """Words one turn's answer.

    The same turn is worded the same whenever it is asked for, `created` included: it is read from the
    turn's id (UUIDv7, RFC 9562: its first 48 bits are milliseconds).
    """

    turn_id: str
    model: str
    with_usage: bool

    def completion(self, content: str, answered: Answered) -> ChatCompletion:
        """The whole answer."""
        return ChatCompletion(
            id=self._id,
            created=self._created,
            model=self.model,
            choices=[
                Choice(message=AnswerMessage(content=content), finish_reason=answered.finish_reason)
            ],
            usage=answered.usage,
        )

    def beginning(self) -> bytes:
        """The first chunk: the turn was admitted."""
        return self._choice({"role": "assistant", "content": ""}, None)

    def text(self, text: str) -> bytes:
        """A piece of the answer."""
        return self._choice({"content": text}, None)

    def end(self, answered: Answered) -> bytes:
        """The last chunks."""
        last = self._choice({}, answered.finish_reason)
        if self.with_usage:
            last += data_line({**self._head, "choices": [], "usage": answered.usage.model_dump()})
        return last + _DONE

    @property
    def _id(self) -> str:
        return f"chatcmpl-{self.turn_id}"

    @property
    def _created(self) -> int:
        return (UUID(self.turn_id).int >> 80) // 1000

    @property
    def _head(self) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self.model,
        }

    def _choice(self, delta: dict[str, Any], finish_reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        usage = {"usage": None} if self.with_usage else {}
        return data_line({**self._head, "choices": [choice], **usage})

    def error(self, failed: Failed) -> bytes:
        """An error in mid-stream.  Nothing follows it, so that nobody takes what came for an answer."""
        return data_line(openai_error(failed.message, failed.kind, failed.code))
