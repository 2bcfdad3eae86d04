"""A turn's events, told as a response's.

Each assistant message that says something is one item of the output; calls do not show.

Invariants: events are numbered from 0 without a gap, and their numbers follow from what the turn said,
not from how it came.  So who comes back with the number of the last event that it saw gets the next one.
What was told is never taken back: when a message comes to nothing whose beginning was told, the narration
breaks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.gateway.completions.outcome import Failed
from herma.gateway.responses.ending import Ending, ending_of
from herma.gateway.responses.objects import OutputMessage, OutputText
from herma.gateway.responses.pieces import whole_pieces
from herma.gateway.responses.portrait import Portrait

Event = dict[str, Any]

RETRACTED = Failed(
    502,
    "server_error",
    "answer_retracted",
    "The model's answer broke off after part of it was sent, and is being made anew. The turn goes on: "
    "retrieve the response to get its answer.",
)
_BEYOND = Failed(
    400, "invalid_request_error", "invalid_argument", "`starting_after` lies beyond the last event."
)


class Narration:
    """One response, event by event.

    Args:
        streamed: Tell text as it comes, not only whole messages.
        after: The number of the last event that the client has seen; -1 for none.
    """

    def __init__(self, portrait: Portrait, *, streamed: bool, after: int = -1) -> None:
        self._portrait = portrait
        self._streamed = streamed
        self._after = after
        self._number = 0
        self._has_started = False
        self._message_id = ""
        # What is known of the open message, and how much of it was told.
        self._text = ""
        self._told = 0
        self._is_open = False
        self._model_reason = ""
        # Something was told that will not become part of the answer.
        self._is_void = False
        self.output: list[OutputMessage] = []
        self.ending: Ending | None = None
        self.broken: Failed | None = None

    def beginning(self) -> list[Event]:
        """The response was made."""
        body = self._portrait.under_way(self._portrait.initial)
        return self._tell("response.created", response=body.model_dump())

    def take(self, item: session_pb2.SubscribeResponse) -> list[Event]:
        """Takes what the authority says next; what to tell now.

        Sets `ending` at the turn's end, or `broken` when the narration cannot go on.
        """
        if item.HasField("delta"):
            return list(self._delta(item.delta)) if self._streamed else []
        event = item.event
        if event.turn_id != self._portrait.turn_id or (self._is_void and event.kind != "turn.ended"):
            return []
        data: dict[str, Any] = json.loads(event.data or b"{}")
        if event.kind == "turn.started" and not self._has_started:
            self._has_started = True
            body = self._portrait.under_way("in_progress")
            return self._tell("response.in_progress", response=body.model_dump())
        if event.kind == "message.completed":
            return list(self._completed(data))
        if event.kind == "message.discarded":
            self._discarded(data)
        elif event.kind == "turn.ended":
            return self._ended(data, event.at.seconds)
        return []

    def error(self, failed: Failed) -> list[Event]:
        """The narration breaks off, though the turn may go on."""
        self._number = max(self._number, self._after + 1)
        return self._tell("error", code=failed.code, message=failed.message, param=None)

    def _delta(self, delta: ledger_pb2.Delta) -> Iterator[Event]:
        if delta.turn_id != self._portrait.turn_id or not self._turn_to(delta.message_id):
            return
        known = len(self._text) - delta.offset
        if known < 0:
            return  # a piece before it is missing; the whole message will fill the gap
        self._text += delta.text[known:]
        for piece in whole_pieces(self._text, self._told):
            yield from self._piece(piece)

    def _completed(self, data: Mapping[str, Any]) -> Iterator[Event]:
        if not self._turn_to(data["message_id"]):
            return
        self._model_reason = data.get("finish_reason", "")
        content: str = data["content"]
        if not self._streamed:
            self._text = content
            self.output += [self._item()] if content else []
            return
        if not content.startswith(self._text[: self._told]):
            self._retract()
            return
        self._text = content
        for piece in whole_pieces(content, self._told):
            yield from self._piece(piece)
        if self._told < len(content):
            yield from self._piece(content[self._told :])
        if self._is_open:
            yield from self._close()

    def _discarded(self, data: Mapping[str, Any]) -> None:
        told = self._is_open and data["message_id"] == self._message_id
        # Streamed text is not kept: who has seen later events than there are now may have seen it.
        told = told or (self._after >= self._number and bool(data.get("streamed", True)))
        if not told:
            return
        self._is_void = True
        # When the turn ended with it, the end says why, and follows at once.
        if data.get("reason") != "turn_ended":
            self._retract()

    def _ended(self, data: Mapping[str, Any], at: int) -> list[Event]:
        ending = ending_of(data, self._model_reason, at)
        if self._is_void:
            if ending.failed is None:
                self._retract()
                return []
            self._number = max(self._number, self._after + 1)
        self.ending = ending
        if self._after > self._number:
            return self.error(_BEYOND)
        status = "failed" if ending.status == "cancelled" else ending.status
        body = self._portrait.ended(ending, self.output)
        return self._tell(f"response.{status}", response=body.model_dump())

    def _retract(self) -> None:
        self._is_void = True
        self.broken = RETRACTED

    def _turn_to(self, message_id: str) -> bool:
        """Whether that message can be told."""
        if message_id != self._message_id:
            if self._is_open:
                self._retract()
            self._message_id, self._text, self._told = message_id, "", 0
        return not self._is_void

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._message_id}", "output_index": len(self.output)}

    def _piece(self, piece: str) -> Iterator[Event]:
        if not self._is_open:
            yield from self._open()
        self._told += len(piece)
        yield from self._tell(
            "response.output_text.delta", **self._place, content_index=0, delta=piece, logprobs=[]
        )

    def _open(self) -> Iterator[Event]:
        self._is_open = True
        item = OutputMessage(id=f"msg_{self._message_id}", status="in_progress", content=[])
        yield from self._tell(
            "response.output_item.added", output_index=len(self.output), item=item.model_dump()
        )
        part = OutputText(text="").model_dump()
        yield from self._tell("response.content_part.added", **self._place, content_index=0, part=part)

    def _close(self) -> Iterator[Event]:
        self._is_open = False
        item = self._item()
        place = {**self._place, "content_index": 0}
        yield from self._tell("response.output_text.done", **place, text=self._text, logprobs=[])
        yield from self._tell("response.content_part.done", **place, part=item.content[0].model_dump())
        yield from self._tell(
            "response.output_item.done", output_index=len(self.output), item=item.model_dump()
        )
        self.output.append(item)

    def _item(self) -> OutputMessage:
        text = OutputText(text=self._text)
        return OutputMessage(id=f"msg_{self._message_id}", status="completed", content=[text])

    def _tell(self, kind: str, **data: Any) -> list[Event]:
        number, self._number = self._number, self._number + 1
        if number <= self._after:
            return []
        return [{"type": kind, "sequence_number": number, **data}]
