"""A response as an object, at any moment of its life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from herma.gateway.responses.ending import Ending
from herma.gateway.responses.identity import created_at, response_id
from herma.gateway.responses.objects import ConversationBody, OutputMessage, ResponseBody, Status
from herma.gateway.responses.particulars import Particulars


@dataclass(frozen=True, slots=True)
class Portrait:
    """What does not change in a response."""

    turn_id: str
    session_id: str
    particulars: Particulars

    @property
    def initial(self) -> Status:
        """The status of a response that was just made."""
        return "queued" if self.particulars.background else "in_progress"

    def under_way(self, status: Status) -> ResponseBody:
        """The response before its end."""
        return self._body(status, ())

    def ended(self, ending: Ending, output: Sequence[OutputMessage]) -> ResponseBody:
        """The response for good."""
        body = self._body(ending.status, output)
        body.usage, body.error, body.incomplete_details = ending.usage, ending.error, ending.incomplete
        body.completed_at = ending.at if ending.status == "completed" else None
        return body

    def _body(self, status: Status, output: Sequence[OutputMessage]) -> ResponseBody:
        said = self.particulars
        return ResponseBody(
            id=response_id(self.turn_id),
            created_at=created_at(self.turn_id),
            status=status,
            background=said.background,
            model=said.model,
            output=list(output),
            previous_response_id=said.previous_response_id,
            conversation=ConversationBody(id=self.session_id) if said.has_conversation else None,
            metadata=dict(said.metadata),
            user=said.user,
        )
