"""What the routes of OpenAI's APIs share."""

from __future__ import annotations

import hashlib

from fastapi import Request

from herma.api.ledger.v1 import ledger_pb2
from herma.common.errors import InvalidArgument
from herma.gateway.answers import Items, Listener
from herma.gateway.auth import visitor_with
from herma.gateway.authority import Authority
from herma.gateway.following import follow


async def check_model(
    authority: Authority, caller: ledger_pb2.Caller, session_id: str, model: str
) -> None:
    """Refuses a session that is not the caller's, or not the model's.

    Raises:
        NotFound: when there is no such session, or no such model.
        InvalidArgument: when the session belongs to another profile.
    """
    session = await authority.get_session(caller, session_id)
    if session.profile == model:
        return
    await authority.profiles.get(caller, model)
    raise InvalidArgument(
        "the session is another model's", fields={"model": f"the session's is {session.profile!r}"}
    )


def derived_key(request: Request, entrance: str, idempotency_key: str) -> str:
    """The key under which the authority knows a request: other paths' keys are others.

    Without a key of the client's it is one of our own: the authority may be asked twice all the same.
    """
    key = idempotency_key or str(request.app.state.new_id())
    return f"{entrance}:{hashlib.sha256(key.encode()).hexdigest()}"


def listener_of(
    request: Request, scope: str, session_id: str, turn_id: str, *, has_key: bool
) -> Listener:
    """Who waits for a turn's answer, and may while it has the scope."""
    return Listener(
        lambda: visitor_with(request, scope),
        request.app.state.stopping,
        request.app.state.pace,
        {"X-Herma-Session": session_id, "X-Herma-Turn": turn_id},
        has_key=has_key,
    )


def items_of(
    request: Request, caller: ledger_pb2.Caller, session_id: str, turn_id: str, after: int
) -> Items:
    """What the authority says of a turn after it was queued, until its end."""
    authority: Authority = request.app.state.authority
    return follow(
        lambda seq: authority.subscribe(caller, session_id, seq, turn_id),
        after,
        ends=True,
        pace=request.app.state.pace,
    )


def renamed(error: InvalidArgument, names: dict[str, str]) -> InvalidArgument:
    """A refusal of the authority's, with its fields as the client named them."""
    fields = {names.get(name.partition("[")[0], name): text for name, text in error.fields.items()}
    return InvalidArgument(error.message, reason=error.reason, fields=fields)
