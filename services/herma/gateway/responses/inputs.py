"""What a request said, as a list of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from herma.api.session.v1 import session_pb2
from herma.common.errors import InvalidArgument
from herma.gateway.responses.objects import InputMessage, InputPage, InputText, OutputText


def input_messages(
    turn_id: str, asked: session_pb2.GetTurnInputResponse, *, whole: bool
) -> list[InputMessage]:
    """The messages, in order.

    Args:
        whole: The session was made from the request, so what it began with is the request's too.
    """
    earlier = [_message(entry.id, entry.role, entry.content) for entry in asked.earlier] if whole else []
    # The turn's own message has no id in the transcript until the turn runs.
    return [*earlier, _message(turn_id, "user", asked.content)]


def page_of(
    messages: Sequence[InputMessage], order: Literal["asc", "desc"], after: str, limit: int
) -> InputPage:
    """A page.

    Raises:
        InvalidArgument: when it is to begin after what is no item.
    """
    found = list(messages) if order == "asc" else list(reversed(messages))
    if after:
        ids = [message.id for message in found]
        if after not in ids:
            raise InvalidArgument("no such page", fields={"after": "is no item of this response"})
        found = found[ids.index(after) + 1 :]
    data = found[:limit]
    return InputPage(
        data=data,
        first_id=data[0].id if data else "",
        last_id=data[-1].id if data else "",
        has_more=len(found) > limit,
    )


def _message(id_: str, role: Any, text: str) -> InputMessage:
    mine = role == "user"
    part = InputText(text=text) if mine else OutputText(text=text)
    return InputMessage(id=f"msg_{id_}", role=role, content=[part])
