"""A turn's answer, told as a response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from herma.api.session.v1 import session_pb2
from herma.gateway.completions.outcome import Failed
from herma.gateway.responses.narration import Event, Narration
from herma.gateway.responses.portrait import Portrait
from herma.gateway.sse import data_line


class ResponseTelling:
    """See `answers.Telling`.

    Args:
        streamed: Tell text as it comes, not only whole messages.
        after: The number of the last event that the client has seen; -1 for none.
        fails: For who asks for the whole, a turn without an answer is an error, not a response.
    """

    def __init__(
        self, portrait: Portrait, *, streamed: bool, after: int = -1, fails: bool = False
    ) -> None:
        self._portrait = portrait
        self._narration = Narration(portrait, streamed=streamed, after=after)
        self._fails = fails

    @property
    def ended(self) -> bool:
        """The turn has, or a stream cannot go on."""
        return self._narration.ending is not None or self._narration.broken is not None

    def beginning(self) -> bytes:
        """That the response was made."""
        return _framed(self._narration.beginning())

    def take(self, item: session_pb2.SubscribeResponse) -> bytes:
        """Takes what the authority says next; the events for it."""
        return _framed(self._narration.take(item))

    def end(self) -> bytes:
        """Nothing after the response's end, which was told; else why there is none."""
        broken = self._narration.broken
        return self.error(broken) if broken else b""

    def error(self, failed: Failed) -> bytes:
        """An error in mid-stream."""
        return _framed(self._narration.error(failed))

    def whole(self) -> Mapping[str, Any] | Failed:
        """The response."""
        ending, broken = self._narration.ending, self._narration.broken
        if ending is None:
            assert broken is not None
            return broken
        if ending.failed is not None and self._fails:
            return ending.failed
        return self._portrait.ended(ending, self._narration.output).model_dump()


def _framed(events: Iterable[Event]) -> bytes:
    return b"".join(f"event: {event['type']}\n".encode() + data_line(event) for event in events)
