"""The gRPC face for entrances: unpack, call, pack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from herma.api.session.v1 import session_pb2, session_pb2_grpc
from herma.common.errors import InvalidArgument
from herma.common.ids import parse_id
from herma.session_authority import wire
from herma.session_authority.bells import Belfry
from herma.session_authority.deletion import Deletions
from herma.session_authority.domain import admission
from herma.session_authority.paging import id_of_token, number_of_token, page_size, to_token
from herma.session_authority.store.sessions import SessionStore
from herma.session_authority.subscription import Subscriptions


class SessionServicer(session_pb2_grpc.SessionServiceServicer):
    """Sessions and turns."""

    def __init__(
        self,
        sessions: SessionStore,
        deletions: Deletions,
        subscriptions: Subscriptions,
        belfry: Belfry,
    ) -> None:
        self._sessions = sessions
        self._deletions = deletions
        self._subscriptions = subscriptions
        self._belfry = belfry

    async def CreateSession(  # noqa: N802  # the proto's name
        self, request: session_pb2.CreateSessionRequest, context: Any
    ) -> session_pb2.CreateSessionResponse:
        new = wire.new_session_of(request)
        admission.check_idempotency_key(request.idempotency_key)
        session = await self._sessions.create(
            wire.caller_of(request.caller),
            new.profile,
            new.key,
            new.title,
            request.idempotency_key,
            new.instructions,
            new.history,
        )
        return session_pb2.CreateSessionResponse(session=wire.session_message(session))

    async def GetSession(  # noqa: N802
        self, request: session_pb2.GetSessionRequest, context: Any
    ) -> session_pb2.GetSessionResponse:
        session = await self._sessions.get(
            wire.caller_of(request.caller), parse_id(request.session_id, "session_id")
        )
        return session_pb2.GetSessionResponse(session=wire.session_message(session))

    async def ListSessions(  # noqa: N802
        self, request: session_pb2.ListSessionsRequest, context: Any
    ) -> session_pb2.ListSessionsResponse:
        size = page_size(request.page_size)
        before = id_of_token(request.page_token)
        found = await self._sessions.list(wire.caller_of(request.caller), before, size + 1)
        page = found[:size]
        return session_pb2.ListSessionsResponse(
            sessions=[wire.session_message(session) for session in page],
            next_page_token=to_token(str(page[-1].id)) if len(found) > size else "",
        )

    async def DeleteSession(  # noqa: N802
        self, request: session_pb2.DeleteSessionRequest, context: Any
    ) -> session_pb2.DeleteSessionResponse:
        only = parse_id(request.only_turn_id, "only_turn_id") if request.only_turn_id else None
        await self._deletions.delete(
            wire.caller_of(request.caller), parse_id(request.session_id, "session_id"), only
        )
        return session_pb2.DeleteSessionResponse()

    async def ListMessages(  # noqa: N802
        self, request: session_pb2.ListMessagesRequest, context: Any
    ) -> session_pb2.ListMessagesResponse:
        size = page_size(request.page_size)
        after = number_of_token(request.page_token)
        found = await self._sessions.messages(
            wire.caller_of(request.caller),
            parse_id(request.session_id, "session_id"),
            after,
            size + 1,
        )
        page = found[:size]
        return session_pb2.ListMessagesResponse(
            messages=[wire.message_message(message) for message in page],
            next_page_token=to_token(str(page[-1].position)) if len(found) > size else "",
        )

    async def Submit(  # noqa: N802
        self, request: session_pb2.SubmitRequest, context: Any
    ) -> session_pb2.SubmitResponse:
        admission.check_content(request.content)
        admission.check_mode(request.mode, request.kind)
        admission.check_idempotency_key(request.idempotency_key)
        admission.check_memo(request.memo)
        admitted = await self._sessions.submit(
            wire.caller_of(request.caller),
            wire.target_of(request),
            request.content,
            request.idempotency_key,
            request.traceparent,
            request.fingerprint.hex(),
            request.memo,
        )
        if admitted.is_runnable:
            self._belfry.ring_work()
        self._belfry.ring_session(admitted.session_id)
        return session_pb2.SubmitResponse(
            turn_id=str(admitted.turn_id),
            session_id=str(admitted.session_id),
            position=admitted.position,
            cursor=admitted.cursor,
        )

    async def GetTurn(  # noqa: N802
        self, request: session_pb2.GetTurnRequest, context: Any
    ) -> session_pb2.GetTurnResponse:
        turn = await self._sessions.turn(
            wire.caller_of(request.caller), parse_id(request.turn_id, "turn_id")
        )
        return session_pb2.GetTurnResponse(turn=wire.turn_message(turn), memo=turn.memo)

    async def GetTurnInput(  # noqa: N802
        self, request: session_pb2.GetTurnInputRequest, context: Any
    ) -> session_pb2.GetTurnInputResponse:
        found = await self._sessions.turn_input(
            wire.caller_of(request.caller), parse_id(request.turn_id, "turn_id")
        )
        return session_pb2.GetTurnInputResponse(
            content=found.content, earlier=[wire.message_message(message) for message in found.earlier]
        )

    async def InterruptTurn(  # noqa: N802
        self, request: session_pb2.InterruptTurnRequest, context: Any
    ) -> session_pb2.InterruptTurnResponse:
        turn = await self._sessions.interrupt(
            wire.caller_of(request.caller), parse_id(request.turn_id, "turn_id")
        )
        self._belfry.ring_signals()
        self._belfry.ring_session(turn.session_id)
        self._belfry.ring_work()
        return session_pb2.InterruptTurnResponse(turn=wire.turn_message(turn))

    async def Subscribe(  # noqa: N802
        self, request: session_pb2.SubscribeRequest, context: Any
    ) -> AsyncIterator[session_pb2.SubscribeResponse]:
        if request.after_seq < 0:
            raise InvalidArgument("a cursor is not negative", fields={"after_seq": "0 or more"})
        turn_id: UUID | None = parse_id(request.turn_id, "turn_id") if request.turn_id else None
        items = self._subscriptions.follow(
            wire.caller_of(request.caller),
            parse_id(request.session_id, "session_id"),
            request.after_seq,
            turn_id,
        )
        async for item in items:
            yield wire.stream_message(item)
