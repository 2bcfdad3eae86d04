"""A turn's events, assembled to one text.

Invariant: the pieces, joined, are the contents of the turn's assistant messages with a blank line between
those that are not empty, whether they came streamed or whole.  What was handed out is never taken back:
when a message comes to nothing whose beginning was, the assembly fails.
"""

from __future__ import annotations

import json
from typing import Any

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.gateway.completions.outcome import Failed, Outcome, outcome_of

_BETWEEN = "\n\n"
_RETRACTED = Failed(
    502,
    "server_error",
    "answer_retracted",
    "The model's answer broke off after part of it was sent, and is being made anew. The turn goes on: "
    "send the same request with the same Idempotency-Key to get its answer.",
)


class Assembly:
    """One turn's text as it comes.

    Args:
        streamed: Take streamed text too, not only whole messages.
    """

    def __init__(self, turn_id: str, *, streamed: bool) -> None:
        self._turn_id = turn_id
        self._streamed = streamed
        self._message_id = ""
        # What was handed out of that message.
        self._shown = ""
        self._begun = False
        self._model_reason = ""
        self._retracted = False
        self.outcome: Outcome | None = None

    def take(self, item: session_pb2.SubscribeResponse) -> str:
        """Takes what the authority says next; the text to hand out now.  Sets `outcome` at the end."""
        if item.HasField("delta"):
            return self._delta(item.delta) if self._streamed else ""
        event = item.event
        if event.turn_id != self._turn_id or (self._retracted and event.kind != "turn.ended"):
            return ""
        data: dict[str, Any] = json.loads(event.data or b"{}")
        if event.kind == "message.completed":
            return self._completed(data)
        if event.kind == "message.discarded":
            self._discarded(data)
        elif event.kind == "turn.ended":
            self._ended(data)
        return ""

    def _delta(self, delta: ledger_pb2.Delta) -> str:
        if delta.turn_id != self._turn_id or self._retracted:
            return ""
        self._turn_to(delta.message_id)
        known = len(self._shown) - delta.offset
        if known < 0:
            return ""  # a piece before it is missing; the whole message will fill the gap
        return self._hand_out(delta.text[known:])

    def _completed(self, data: dict[str, Any]) -> str:
        self._turn_to(data["message_id"])
        self._model_reason = data.get("finish_reason", "")
        content: str = data["content"]
        if not content.startswith(self._shown):
            self._retract()
            return ""
        return self._hand_out(content[len(self._shown) :])

    def _discarded(self, data: dict[str, Any]) -> None:
        if data["message_id"] != self._message_id or not self._shown:
            return
        self._retracted = True
        # When the turn ended with it, the end says why, and follows at once.
        if data.get("reason") != "turn_ended":
            self._retract()

    def _ended(self, data: dict[str, Any]) -> None:
        outcome = outcome_of(data, self._model_reason)
        if self._retracted and not isinstance(outcome, Failed):
            outcome = _RETRACTED
        self.outcome = outcome

    def _retract(self) -> None:
        self._retracted = True
        self.outcome = _RETRACTED

    def _turn_to(self, message_id: str) -> None:
        if message_id != self._message_id:
            self._message_id, self._shown = message_id, ""

    def _hand_out(self, text: str) -> str:
        if not text:
            return ""
        between = _BETWEEN if self._begun and not self._shown else ""
        self._shown += text
        self._begun = True
        return between + text
