"""A turn's answer, told as a chat completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herma.api.session.v1 import session_pb2
from herma.gateway.completions.assembly import Assembly
from herma.gateway.completions.outcome import Answered, Failed
from herma.gateway.completions.wording import Wording


class CompletionTelling:
    """See `answers.Telling`.

    Args:
        streamed: Tell text as it comes, not only whole messages.
    """

    def __init__(self, wording: Wording, *, streamed: bool) -> None:
        self._wording = wording
        self._assembly = Assembly(wording.turn_id, streamed=streamed)
        self._pieces: list[str] = []
        self._streamed = streamed

    @property
    def ended(self) -> bool:
        """The turn has, or a stream cannot go on."""
        return self._assembly.outcome is not None

    def beginning(self) -> bytes:
        """The first chunk."""
        return self._wording.beginning()

    def take(self, item: session_pb2.SubscribeResponse) -> bytes:
        """Takes what the authority says next; the chunk for it, if any."""
        text = self._assembly.take(item)
        if not self._streamed:
            self._pieces.append(text)
        return self._wording.text(text) if text and self._streamed else b""

    def end(self) -> bytes:
        """The last chunks."""
        outcome = self._assembly.outcome
        assert outcome is not None
        return self._wording.end(outcome) if isinstance(outcome, Answered) else self.error(outcome)

    def error(self, failed: Failed) -> bytes:
        """An error in mid-stream."""
        return self._wording.error(failed)

    def whole(self) -> Mapping[str, Any] | Failed:
        """The completion."""
        outcome = self._assembly.outcome
        assert outcome is not None
        if isinstance(outcome, Failed):
            return outcome
        return self._wording.completion("".join(self._pieces), outcome).model_dump()
