"""OpenAI's chat completions: a conversation in, the turn's answer out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.common import telemetry
from herma.common.errors import InvalidArgument
from herma.gateway.answers import WholeAnswer, streamed_answer
from herma.gateway.authority import Authority
from herma.gateway.completions.bodies import ChatCompletion, ChatCompletionRequest
from herma.gateway.completions.conversation import ENTRANCE, Conversation, read_conversation
from herma.gateway.completions.telling import CompletionTelling
from herma.gateway.completions.wording import Wording
from herma.gateway.routes.openai_parts import (
    check_model,
    derived_key,
    items_of,
    listener_of,
    renamed,
)
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
        await check_model(authority, visitor.caller, conversation.session_id, conversation.profile)
    key = derived_key(request, ENTRANCE, idempotency_key)
    admitted = await _submit(authority, visitor.caller, conversation, key)
    session_id, turn_id = admitted.session_id, admitted.turn_id
    items = items_of(request, visitor.caller, session_id, turn_id, admitted.cursor)
    options = body.stream_options
    wording = Wording(turn_id, body.model, bool(options and options.include_usage))
    telling = CompletionTelling(wording, streamed=bool(body.stream))
    listener = listener_of(request, "agent", session_id, turn_id, has_key=bool(idempotency_key))
    if body.stream:
        return streamed_answer(items, telling, listener)
    return WholeAnswer(request, items, telling, listener)


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
        raise renamed(error, _FIELDS) from error


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
