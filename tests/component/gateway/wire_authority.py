"""session-authority's wire, played: what a real one cannot be made to do on demand.

It speaks the protos of `herma.api` through the platform's own guarded server, so identity, deadlines and
error mapping are the real ones.  What turns mean is not tested here but end to end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from herma.api.identity.v1 import identity_pb2, identity_pb2_grpc
from herma.api.issuer.v1 import issuer_pb2, issuer_pb2_grpc
from herma.api.ledger.v1 import ledger_pb2
from herma.api.profile.v1 import profile_pb2, profile_pb2_grpc
from herma.api.session.v1 import session_pb2, session_pb2_grpc
from herma.common.errors import NotFound, Unauthenticated
from herma.common.ids import UuidV7Factory
from herma.common.rpc import RpcServer, ServedApi, ServiceIdentity, ServiceKeys

SERVICE_KEYS = {"gateway>session-authority": "k" * 32}
_new_id = UuidV7Factory()


class WireAuthority(
    session_pb2_grpc.SessionServiceServicer,
    identity_pb2_grpc.IdentityServiceServicer,
    profile_pb2_grpc.ProfileServiceServicer,
    issuer_pb2_grpc.IssuerServiceServicer,
):
    """Answers from fields that a test sets; records requests."""

    def __init__(self) -> None:
        self.session_id, self.turn_id, self.key_id = (str(_new_id()) for _ in range(3))
        self.keys: dict[str, tuple[str, ...]] = {
            "good": ("agent", "keys"),
            "editor": ("profiles",),
            "root": ("platform",),
        }
        self.listed: list[identity_pb2.Key] = []
        self.issuer = issuer_pb2.Issuer()
        self.sought: list[tuple[str, tuple[str, ...]]] = []
        self.entered: list[identity_pb2.EnterRequest] = []
        self.token_scopes = ("agent", "keys")
        self.outcome = profile_pb2.OUTCOME_UNCHANGED
        self.failure: Exception | None = None
        self.requests: list[Any] = []
        self.traceparents: list[str] = []
        self.items: list[session_pb2.SubscribeResponse] = []
        self.cursor = 7
        self.profile = "default"
        self.memo = ""
        self.state = ledger_pb2.TURN_STATE_RUNNING
        self.input = session_pb2.GetTurnInputResponse(content="Hi")
        self.subscribers = 0
        self.new_item = asyncio.Event()
        self.server: RpcServer | None = None
        self.port = 0

    async def start(self) -> None:
        """Serves; after `stop`, on the same port again."""
        callers = frozenset({"gateway"})
        self.server = RpcServer(
            ServiceIdentity("session-authority", ServiceKeys(SERVICE_KEYS)),
            [
                ServedApi(
                    "herma.api.session.v1.SessionService",
                    session_pb2_grpc.add_SessionServiceServicer_to_server,
                    self,
                    callers,
                ),
                ServedApi(
                    "herma.api.identity.v1.IdentityService",
                    identity_pb2_grpc.add_IdentityServiceServicer_to_server,
                    self,
                    callers,
                ),
                ServedApi(
                    "herma.api.issuer.v1.IssuerService",
                    issuer_pb2_grpc.add_IssuerServiceServicer_to_server,
                    self,
                    callers,
                ),
                ServedApi(
                    "herma.api.profile.v1.ProfileService",
                    profile_pb2_grpc.add_ProfileServiceServicer_to_server,
                    self,
                    callers,
                ),
            ],
            f"127.0.0.1:{self.port}",
        )
        await self.server.start()
        self.port = self.server.port

    async def stop(self) -> None:
        """Cuts every call off, as a kill does."""
        assert self.server is not None
        await self.server.stop(0)

    def add_event(self, kind: str, **data: object) -> None:
        """Appends the next event."""
        seq = 1 + sum(item.HasField("event") for item in self.items)
        event = ledger_pb2.Event(seq=seq, kind=kind, turn_id=self.turn_id, data=json.dumps(data).encode())
        event.at.FromJsonString("2026-01-02T03:04:05.678Z")
        self._add(session_pb2.SubscribeResponse(event=event))

    def add_delta(self, text: str, offset: int = 0) -> None:
        """Appends streamed text."""
        self._add(
            session_pb2.SubscribeResponse(
                delta=ledger_pb2.Delta(
                    turn_id=self.turn_id, message_id="m", attempt=1, offset=offset, text=text
                )
            )
        )

    def _add(self, item: session_pb2.SubscribeResponse) -> None:
        self.items.append(item)
        self.new_item.set()
        self.new_item = asyncio.Event()

    def _note(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        metadata = dict(context.invocation_metadata())
        self.traceparents.append(metadata.get("traceparent", ""))
        if self.failure is not None:
            raise self.failure

    def _known(self, session_id: str) -> None:
        if session_id != self.session_id:
            raise NotFound("no such session", reason="SESSION_NOT_FOUND")

    def _known_turn(self, turn_id: str) -> None:
        if turn_id != self.turn_id:
            raise NotFound("no such turn", reason="TURN_NOT_FOUND")

    async def Authenticate(self, request: Any, context: Any) -> Any:
        scopes = self.keys.get(request.key)
        if scopes is None:
            raise Unauthenticated("the API key is not valid", reason="API_KEY_INVALID")
        caller = ledger_pb2.Caller(tenant_id="t", principal_id="p", key_id=self.key_id)
        return identity_pb2.AuthenticateResponse(caller=caller, scopes=scopes)

    async def FindIssuer(self, request: Any, context: Any) -> Any:
        self.sought.append((request.issuer, tuple(request.audiences)))
        if self.issuer.issuer != request.issuer or self.issuer.audience not in request.audiences:
            raise NotFound("nobody accepts this issuer", reason="ISSUER_NOT_FOUND")
        return issuer_pb2.FindIssuerResponse(tenant_id="t", issuer=self.issuer)

    async def Enter(self, request: Any, context: Any) -> Any:
        self.entered.append(request)
        caller = ledger_pb2.Caller(tenant_id=request.tenant_id, principal_id=request.subject)
        return identity_pb2.EnterResponse(caller=caller, scopes=self.token_scopes)

    async def ListKeys(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        return identity_pb2.ListKeysResponse(keys=self.listed)

    async def RevokeKey(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        self.keys.pop("good", None)
        return identity_pb2.RevokeKeyResponse(key=identity_pb2.Key(id=request.key_id))

    async def CreateTenant(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        return identity_pb2.CreateTenantResponse(tenant_id="t1", name=request.name, key="secret")

    async def CreateSession(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        return session_pb2.CreateSessionResponse(
            session=session_pb2.Session(id=self.session_id, title=request.title, state="idle")
        )

    async def GetSession(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        self._known(request.session_id)
        seq = sum(item.HasField("event") for item in self.items)
        return session_pb2.GetSessionResponse(
            session=session_pb2.Session(
                id=self.session_id, profile=self.profile, state="idle", last_seq=seq
            )
        )

    async def DeleteSession(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        self._known(request.session_id)
        return session_pb2.DeleteSessionResponse()

    async def ListProfiles(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        if request.page_token == "more":
            return profile_pb2.ListProfilesResponse(profiles=[_profile("two")])
        return profile_pb2.ListProfilesResponse(profiles=[_profile("one")], next_page_token="more")

    async def GetProfile(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        if request.name not in ("one", "default"):
            raise NotFound("no such profile", reason="PROFILE_NOT_FOUND")
        return profile_pb2.GetProfileResponse(profile=_profile(request.name))

    async def ApplyProfile(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        return profile_pb2.ApplyProfileResponse(profile=_profile(request.name), outcome=self.outcome)

    async def Submit(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        if request.HasField("continuation"):
            self._known_turn(request.continuation.turn_id)
        elif not request.HasField("new_session"):
            self._known(request.session_id)
        self.memo = request.memo
        return session_pb2.SubmitResponse(
            turn_id=self.turn_id, session_id=self.session_id, position=0, cursor=self.cursor
        )

    async def GetTurn(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        self._known_turn(request.turn_id)
        turn = ledger_pb2.Turn(id=self.turn_id, session_id=self.session_id, state=self.state)
        turn.calls.add(id="c", tool="terminal", state=ledger_pb2.CALL_STATE_OUTCOME_UNKNOWN)
        return session_pb2.GetTurnResponse(turn=turn, memo=self.memo)

    async def GetTurnInput(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        self._known_turn(request.turn_id)
        return self.input

    async def InterruptTurn(self, request: Any, context: Any) -> Any:
        self._note(request, context)
        self._known_turn(request.turn_id)
        turn = ledger_pb2.Turn(id=self.turn_id, session_id=self.session_id, state=self.state)
        return session_pb2.InterruptTurnResponse(turn=turn)

    async def Subscribe(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self._note(request, context)
        self.subscribers += 1
        try:
            position = 0
            while True:
                more = self.new_item
                for item in self.items[position:]:
                    if item.HasField("delta") or item.event.seq > request.after_seq:
                        yield item
                        if request.turn_id and item.event.kind == "turn.ended":
                            return
                position = len(self.items)
                await more.wait()
        finally:
            self.subscribers -= 1


def _profile(name: str) -> profile_pb2.Profile:
    """At version 3, stored by a release that knows a field more."""
    spec = {"persona": "p", "tools": ["terminal"], "max_iterations": 7, "newer": {"x": 1}}
    found = profile_pb2.Profile(id="p1", name=name, version=3, spec=json.dumps(spec).encode())
    found.created_at.FromSeconds(1_767_000_000)
    return found
