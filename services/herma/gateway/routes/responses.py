"""OpenAI's responses: a turn, asked for and retrieved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2
from herma.common import telemetry
from herma.common.errors import Internal, InvalidArgument, NotFound, SessionGoesOn
from herma.gateway.answers import Items, Listener, WholeAnswer, streamed_answer
from herma.gateway.auth import Visitor
from herma.gateway.authority import Authority
from herma.gateway.responses.asked import Asked, read_request
from herma.gateway.responses.bodies import ResponseRequest
from herma.gateway.responses.identity import missing, missing_previous, turn_of
from herma.gateway.responses.inputs import input_messages, page_of
from herma.gateway.responses.objects import DeletedResponse, InputPage, ResponseBody, Status
from herma.gateway.responses.particulars import elsewhere, particulars_of
from herma.gateway.responses.portrait import Portrait
from herma.gateway.responses.telling import ResponseTelling
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
    Reader,
    TheAuthority,
    known_id,
)

router = APIRouter(prefix="/v1/responses", tags=["openai"], responses=OPENAI_REFUSALS)

_ENTRANCE = "openai.responses"
# How long a turn that was asked to stop may take until it is said to run still.
_PATIENCE = 5.0
# The authority's names for what came in a request.
_FIELDS = {
    "content": "input",
    "history": "input",
    "profile": "model",
    "memo": "metadata",
    "continuation": "previous_response_id",
}
_UNDER_WAY: dict[ledger_pb2.TurnState.ValueType, Status] = {
    ledger_pb2.TURN_STATE_QUEUED: "queued",
    ledger_pb2.TURN_STATE_RUNNING: "in_progress",
    ledger_pb2.TURN_STATE_WAITING: "in_progress",
}
_STREAMS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Whole, or as server-sent events."}
}


@router.post("", response_model=ResponseBody, responses=_STREAMS)
async def create_response(
    body: ResponseRequest,
    request: Request,
    visitor: Agent,
    authority: TheAuthority,
    idempotency_key: IdempotencyKey,
    session: Annotated[str, Header(alias="X-Herma-Session", max_length=64)] = "",
) -> Response:
    """Answers the user's last message by a turn of the profile that `model` names.

    Earlier messages are imported into a new session, unless the request goes on: after a response
    (`previous_response_id`), or in a session that it names (`conversation`, `X-Herma-Session`).  With
    `background` it is answered at once; retrieve the response for its end.  A dropped connection does not
    interrupt the turn; the same request under the same `Idempotency-Key` is answered from the same turn.
    """
    asked = read_request(body, known_id(session, "session") if session else "")
    if asked.session_id:
        await _check_session(authority, visitor.caller, asked, by_header=bool(session))
    key = derived_key(request, _ENTRANCE, idempotency_key)
    admitted = await _submit(authority, visitor.caller, asked, key)
    portrait = Portrait(admitted.turn_id, admitted.session_id, asked.particulars)
    listener = _listener(request, "agent", portrait, has_key=bool(idempotency_key))
    items = _items(request, visitor, portrait, admitted.cursor)
    if body.stream:
        return streamed_answer(items, ResponseTelling(portrait, streamed=True), listener)
    if body.background:
        turn = await authority.get_turn(visitor.caller, admitted.turn_id)
        return _as_it_is(request, turn, portrait, items, listener)
    return WholeAnswer(request, items, ResponseTelling(portrait, streamed=False, fails=True), listener)


@router.get("/{response_id}", response_model=ResponseBody, responses=_STREAMS)
async def get_response(
    response_id: str,
    request: Request,
    visitor: Reader,
    authority: TheAuthority,
    stream: bool = False,
    starting_after: Annotated[int, Query(ge=0, le=2**53)] | None = None,
) -> Response:
    """Reads a response, or streams its events from the beginning or after `starting_after`."""
    turn, portrait = await _found(authority, visitor, response_id)
    listener = _listener(request, "read", portrait, has_key=True)
    items = _items(request, visitor, portrait, turn.seq)
    if stream:
        after = -1 if starting_after is None else starting_after
        telling = ResponseTelling(portrait, streamed=True, after=after)
        return streamed_answer(items, telling, listener)
    return _as_it_is(request, turn, portrait, items, listener)


@router.post("/{response_id}/cancel", response_model=ResponseBody)
async def cancel_response(
    response_id: str, request: Request, visitor: Agent, authority: TheAuthority
) -> Response:
    """Interrupts the turn, and answers its response.  Harmless when repeated or late."""
    turn, portrait = await _found(authority, visitor, response_id)
    try:
        stopped = await authority.interrupt_turn(visitor.caller, turn.id)
    except NotFound as error:
        raise missing() from error
    telling = ResponseTelling(portrait, streamed=False)
    try:
        async with (
            asyncio.timeout(_PATIENCE),
            aclosing(_items(request, visitor, portrait, turn.seq)) as items,  # type: ignore[type-var]
        ):
            async for item in items:
                telling.take(item)
    except TimeoutError:
        return JSONResponse(portrait.under_way(_UNDER_WAY.get(stopped.state, "in_progress")).model_dump())
    if not telling.ended:
        raise Internal("the turn's events came to no end")
    return JSONResponse(telling.whole())


@router.delete("/{response_id}")
async def delete_response(response_id: str, visitor: Agent, authority: TheAuthority) -> DeletedResponse:
    """Deletes a response that is alone in its session, with the session.

    Others are part of a conversation that goes on: delete the session over `/v1/sessions`.
    """
    turn, portrait = await _found(authority, visitor, response_id)
    text = "the response is part of a session with more in it; delete that: DELETE /v1/sessions/{id}"
    if portrait.particulars.has_conversation:
        raise SessionGoesOn(text)
    try:
        await authority.delete_session(visitor.caller, turn.session_id, turn.id)
    except NotFound as error:
        raise missing() from error
    except SessionGoesOn as error:
        raise SessionGoesOn(text) from error
    return DeletedResponse(id=response_id)


@router.get("/{response_id}/input_items")
async def list_input_items(
    response_id: str,
    visitor: Reader,
    authority: TheAuthority,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: Annotated[str, Query(max_length=100)] = "",
) -> InputPage:
    """Lists the messages of the request, newest first; not those of what it went on from."""
    turn, portrait = await _found(authority, visitor, response_id)
    try:
        asked = await authority.get_turn_input(visitor.caller, turn.id)
    except NotFound as error:
        raise missing() from error
    messages = input_messages(turn.id, asked, whole=portrait.particulars.opens)
    return page_of(messages, order, after, limit)


async def _found(
    authority: Authority, visitor: Visitor, response_id: str
) -> tuple[ledger_pb2.Turn, Portrait]:
    """A turn of the visitor's, as a response.

    Raises:
        NotFound: when there is none.
    """
    turn_id = turn_of(response_id)
    try:
        found = await authority.recall_turn(visitor.caller, turn_id)
        turn, particulars = found.turn, particulars_of(found.memo)
        if particulars is None:
            session = await authority.get_session(visitor.caller, turn.session_id)
            particulars = elsewhere(session.profile)
    except NotFound as error:
        raise missing() from error
    return turn, Portrait(turn.id, turn.session_id, particulars)


def _as_it_is(
    request: Request, turn: ledger_pb2.Turn, portrait: Portrait, items: Items, listener: Listener
) -> Response:
    """The response at this moment: once it has ended it is read from the events, as it was streamed."""
    status = _UNDER_WAY.get(turn.state)
    if status is None:
        return WholeAnswer(request, items, ResponseTelling(portrait, streamed=False), listener)
    return JSONResponse(portrait.under_way(status).model_dump(), headers=dict(listener.headers))


def _listener(request: Request, scope: str, portrait: Portrait, *, has_key: bool) -> Listener:
    return listener_of(request, scope, portrait.session_id, portrait.turn_id, has_key=has_key)


async def _items(
    request: Request, visitor: Visitor, portrait: Portrait, after: int
) -> AsyncIterator[session_pb2.SubscribeResponse]:
    items = items_of(request, visitor.caller, portrait.session_id, portrait.turn_id, after)
    try:
        async with aclosing(items) as followed:  # type: ignore[type-var]  # a generator
            async for item in followed:
                yield item
    except NotFound as error:
        raise missing() from error


async def _check_session(
    authority: Authority, caller: ledger_pb2.Caller, asked: Asked, *, by_header: bool
) -> None:
    """As `check_model`, with the session named as the client named it."""
    try:
        session_id = known_id(asked.session_id, "session")
        await check_model(authority, caller, session_id, asked.particulars.model)
    except NotFound as error:
        if by_header or error.reason != "SESSION_NOT_FOUND":
            raise
        raise NotFound("no such conversation", reason="CONVERSATION_NOT_FOUND") from error


async def _submit(
    authority: Authority, caller: ledger_pb2.Caller, asked: Asked, idempotency_key: str
) -> session_pb2.SubmitResponse:
    submission = session_pb2.SubmitRequest(
        caller=caller,
        session_id=asked.session_id,
        content=asked.content,
        mode="queue",
        idempotency_key=idempotency_key,
        traceparent=telemetry.traceparent(),
        fingerprint=asked.fingerprint,
        memo=asked.particulars.memo,
    )
    if asked.previous_turn_id:
        submission.continuation.turn_id = asked.previous_turn_id
        submission.continuation.profile = asked.particulars.model
        submission.continuation.instructions = asked.instructions
    elif not asked.session_id:
        submission.new_session.profile = asked.particulars.model
        submission.new_session.instructions = asked.instructions
        for entry in asked.earlier:
            submission.new_session.history.add(role=entry.role, content=entry.content)
    try:
        return await authority.submit_request(submission)
    except InvalidArgument as error:
        raise renamed(error, _FIELDS) from error
    except NotFound as error:
        if error.reason != "TURN_NOT_FOUND":
            raise
        raise missing_previous() from error
