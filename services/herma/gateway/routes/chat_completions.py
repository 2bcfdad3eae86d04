"""OpenAI's chat completions: a conversation in, the turn's answer out."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.common import telemetry
from herma.common.errors import InvalidArgument
from herma.gateway.auth import visitor_with
from herma.gateway.authority import Authority
from herma.gateway.completions.answer import Listener, WholeAnswer, streamed_answer
from herma.gateway.completions.bodies import ChatCompletion, ChatCompletionRequest
from herma.gateway.completions.conversation import ENTRANCE, Conversation, read_conversation
from herma.gateway.completions.wording import Wording
from herma.gateway.following import follow
from herma.gateway.routes.parts import (
    OPENAI_REFUSALS,
    Agent,
    IdempotencyKey,
    TheAuthority,
    known_id,
)

router = APIRouter(prefix="/v1/chat", tags=["openai"], responses=OPENAI_REFUSALS)

# The authority's names for what came in a request's messages.
_FIELDS = {"content": "messages", "history": "messages", "instructions": "messages", "key": "user"}


@router.post(
    "/completions",
    response_model=ChatCompletion,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Whole, or as chunks."}},
)
async def create_chat_completion(
    body: ChatCompletionRequest,
    request: Request,
    visitor: Agent,
    authority: TheAuthority,
    idempotency_key: IdempotencyKey,
    session: Annotated[str, Header(alias="X-Herma-Session", max_length=64)] = "",
) -> Response:
    """Answers the last message by a turn of the profile that `model` names.

    The earlier messages are imported into a new session, unless the request continues one: by its id in
    `X-Herma-Session`, or by `user`.  A dropped connection does not interrupt the turn; the same request
    under the same `Idempotency-Key` is answered from the same turn.
    """
    conversation = read_conversation(body, known_id(session, "session") if session else "")
    if conversation.session_id:
        await _check_session(authority, visitor.caller, conversation)
    # Without a key of the client's, one of our own: the authority may be asked twice all the same.
    key = _derived(idempotency_key or str(request.app.state.new_id()))
    admitted = await _submit(authority, visitor.caller, conversation, key)
    pace, stopping = request.app.state.pace, request.app.state.stopping
    items = follow(
        lambda after: authority.subscribe(visitor.caller, admitted.session_id, after, admitted.turn_id),
        admitted.cursor,
        ends=True,
        pace=pace,
    )
    options = body.stream_options
    wording = Wording(admitted.turn_id, body.model, bool(options and options.include_usage))
    headers = {"X-Herma-Session": admitted.session_id, "X-Herma-Turn": admitted.turn_id}
    listener = Listener(
        lambda: visitor_with(request, "agent"), stopping, pace, headers, has_key=bool(idempotency_key)
    )
    if body.stream:
        return streamed_answer(items, wording, listener)
    return WholeAnswer(request, items, wording, listener)


async def _check_session(
    authority: Authority, caller: ledger_pb2.Caller, conversation: Conversation
) -> None:
    """Refuses a session that is not the caller's, or not the model's.

    Raises:
        NotFound: when there is no such session, or no such model.
        InvalidArgument: when the session belongs to another profile.
    """
    session = await authority.get_session(caller, conversation.session_id)
    if session.profile == conversation.profile:
        return
    await authority.profiles.get(caller, conversation.profile)
    raise InvalidArgument(
        "the session is another model's", fields={"model": f"the session's is {session.profile!r}"}
    )


async def _submit(
    authority: Authority, caller: ledger_pb2.Caller, conversation: Conversation, idempotency_key: str
) -> session_pb2.SubmitResponse:
    request = session_pb2.SubmitRequest(
        caller=caller,
        session_id=conversation.session_id,
        content=conversation.content,
        mode="queue",
        idempotency_key=idempotency_key,
        traceparent=telemetry.traceparent(),
        fingerprint=conversation.fingerprint,
    )
    if not conversation.session_id:
        request.new_session.CopyFrom(_new_session(conversation))
    try:
        return await authority.submit_request(request)
    except InvalidArgument as error:
        fields = {_FIELDS.get(name.partition("[")[0], name): text for name, text in error.fields.items()}
        raise InvalidArgument(error.message, reason=error.reason, fields=fields) from error


def _new_session(conversation: Conversation) -> session_pb2.NewSession:
    return session_pb2.NewSession(
        profile=conversation.profile,
        key=conversation.session_key,
        entrance=ENTRANCE if conversation.session_key else "",
        instructions=conversation.instructions,
        history=[
            session_pb2.ImportedMessage(role=entry.role, content=entry.content)
            for entry in conversation.earlier
        ],
    )


def _derived(idempotency_key: str) -> str:
    """The key under which the authority knows the request: other paths' keys are others."""
    return f"{ENTRANCE}:{hashlib.sha256(idempotency_key.encode()).hexdigest()}"
