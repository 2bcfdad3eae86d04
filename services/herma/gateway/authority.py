"""session-authority as the gateway sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from herma.api.ledger.v1 import ledger_pb2
from herma.api.session.v1 import session_pb2, session_pb2_grpc
from herma.common.errors import HermaError, Unauthenticated
from herma.common.rpc import Peer
from herma.gateway.audit import Audit
from herma.gateway.identities import Identities
from herma.gateway.issuers import Issuers
from herma.gateway.principals import Principals
from herma.gateway.profiles import Profiles

_TIMEOUT = 20.0
_READY_TIMEOUT = 1.0


class Authority:
    """Sessions, turns and identities."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._sessions: Any = session_pb2_grpc.SessionServiceStub(peer.channel)
        self.identities = Identities(peer)
        self.principals = Principals(peer)
        self.issuers = Issuers(peer)
        self.audit = Audit(peer)
        self.profiles = Profiles(peer)
        self._health: Any = health_pb2_grpc.HealthStub(peer.channel)

    async def create_session(
        self, caller: ledger_pb2.Caller, profile: str, key: str, title: str, idempotency_key: str
    ) -> session_pb2.Session:
        """Makes a session."""
        response = await self._peer.call(
            self._sessions.CreateSession,
            session_pb2.CreateSessionRequest(
                caller=caller,
                profile=profile,
                key=key,
                title=title,
                idempotency_key=idempotency_key,
            ),
            timeout=_TIMEOUT,
            retry=bool(idempotency_key or key),
        )
        return response.session  # type: ignore[no-any-return]  # the stub is untyped here

    async def get_session(self, caller: ledger_pb2.Caller, session_id: str) -> session_pb2.Session:
        """Reads a session."""
        response = await self._peer.call(
            self._sessions.GetSession,
            session_pb2.GetSessionRequest(caller=caller, session_id=session_id),
            timeout=_TIMEOUT,
            retry=True,
        )
        return response.session  # type: ignore[no-any-return]  # the stub is untyped here

    async def list_sessions(
        self, caller: ledger_pb2.Caller, page_size: int, page_token: str
    ) -> session_pb2.ListSessionsResponse:
        """Lists sessions."""
        found: session_pb2.ListSessionsResponse = await self._peer.call(
            self._sessions.ListSessions,
            session_pb2.ListSessionsRequest(caller=caller, page_size=page_size, page_token=page_token),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def delete_session(
        self, caller: ledger_pb2.Caller, session_id: str, only_turn_id: str = ""
    ) -> None:
        """Deletes a session, which may be said to hold only one turn; a repeat is harmless."""
        await self._peer.call(
            self._sessions.DeleteSession,
            session_pb2.DeleteSessionRequest(
                caller=caller, session_id=session_id, only_turn_id=only_turn_id
            ),
            timeout=_TIMEOUT,
            retry=True,
        )

    async def list_messages(
        self, caller: ledger_pb2.Caller, session_id: str, page_size: int, page_token: str
    ) -> session_pb2.ListMessagesResponse:
        """Reads a transcript."""
        found: session_pb2.ListMessagesResponse = await self._peer.call(
            self._sessions.ListMessages,
            session_pb2.ListMessagesRequest(
                caller=caller, session_id=session_id, page_size=page_size, page_token=page_token
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def submit(
        self,
        caller: ledger_pb2.Caller,
        session_id: str,
        content: str,
        mode: str,
        idempotency_key: str,
        traceparent: str,
    ) -> session_pb2.SubmitResponse:
        """Admits a turn.  Repeated while the authority is away only under an idempotency key."""
        found: session_pb2.SubmitResponse = await self._peer.call(
            self._sessions.Submit,
            session_pb2.SubmitRequest(
                caller=caller,
                session_id=session_id,
                content=content,
                mode=mode,
                idempotency_key=idempotency_key,
                traceparent=traceparent,
            ),
            timeout=_TIMEOUT,
            retry=bool(idempotency_key),
        )
        return found

    async def submit_request(self, request: session_pb2.SubmitRequest) -> session_pb2.SubmitResponse:
        """Admits a turn; the request carries an idempotency key, so it is repeated as needed."""
        found: session_pb2.SubmitResponse = await self._peer.call(
            self._sessions.Submit, request, timeout=_TIMEOUT, retry=True
        )
        return found

    async def get_turn(self, caller: ledger_pb2.Caller, turn_id: str) -> ledger_pb2.Turn:
        """Reads a turn."""
        return (await self.recall_turn(caller, turn_id)).turn

    async def recall_turn(self, caller: ledger_pb2.Caller, turn_id: str) -> session_pb2.GetTurnResponse:
        """Reads a turn with what was kept beside it."""
        found: session_pb2.GetTurnResponse = await self._peer.call(
            self._sessions.GetTurn,
            session_pb2.GetTurnRequest(caller=caller, turn_id=turn_id),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def get_turn_input(
        self, caller: ledger_pb2.Caller, turn_id: str
    ) -> session_pb2.GetTurnInputResponse:
        """Reads what a turn was asked."""
        found: session_pb2.GetTurnInputResponse = await self._peer.call(
            self._sessions.GetTurnInput,
            session_pb2.GetTurnInputRequest(caller=caller, turn_id=turn_id),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def interrupt_turn(self, caller: ledger_pb2.Caller, turn_id: str) -> ledger_pb2.Turn:
        """Asks a turn to stop."""
        response = await self._peer.call(
            self._sessions.InterruptTurn,
            session_pb2.InterruptTurnRequest(caller=caller, turn_id=turn_id),
            timeout=_TIMEOUT,
            retry=True,
        )
        return response.turn  # type: ignore[no-any-return]  # the stub is untyped here

    def subscribe(
        self, caller: ledger_pb2.Caller, session_id: str, after: int, turn_id: str
    ) -> AsyncIterator[session_pb2.SubscribeResponse]:
        """Events after a cursor, then as they come."""
        return self._peer.stream(
            self._sessions.Subscribe,
            session_pb2.SubscribeRequest(
                caller=caller, session_id=session_id, after_seq=after, turn_id=turn_id
            ),
            timeout=3600,
        )

    async def ready(self) -> bool:
        """Whether the authority takes work and its database answers, within a second each."""
        try:
            health = await self._peer.call(
                self._health.Check, health_pb2.HealthCheckRequest(), timeout=_READY_TIMEOUT
            )
            if health.status != health_pb2.HealthCheckResponse.SERVING:
                return False
            # An unknown key is looked up, and refused as such.
            await self.identities.authenticate("herma_ready000_" + "x" * 43, timeout=_READY_TIMEOUT)
        except Unauthenticated as error:
            return error.reason == "API_KEY_INVALID"
        except HermaError:
            return False
        return True
