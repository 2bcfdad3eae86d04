"""memory as a server on a real database, and turns that call it as a runner does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from herma.api.memory.v1 import memory_pb2 as pb
from herma.api.memory.v1 import memory_pb2_grpc
from herma.common.ids import UuidV7Factory
from herma.common.postgres import Database
from herma.common.rpc import Peer, RpcServer, ServedApi, ServiceIdentity, ServiceKeys
from herma.common.turn_token import TurnIdentity, TurnTokenSigner, TurnTokenVerifier
from herma.memory.domain.stop_words import stop_terms
from herma.memory.servicer import MemoryServicer
from herma.memory.store.facts import FactStore
from herma.memory.store.notes import NoteStore

KEYS = ServiceKeys({"agent-runner>memory": "k"})
_KEY = Ed25519PrivateKey.generate()
SIGNER = TurnTokenSigner(_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def new_identity(
    tenant: UUID | None = None, profile: UUID | None = None, principal: UUID | None = None
) -> TurnIdentity:
    """A trusted turn of a scope; what is not given is new."""
    return TurnIdentity(
        tenant_id=tenant or uuid4(),
        session_id=uuid4(),
        turn_id=uuid4(),
        profile_id=profile or uuid4(),
        principal_id=principal or uuid4(),
        trust="trusted",
        epoch=1,
        expires_at=int(time.time()) + 3600,
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, as its runner calls memory for it."""

    peer: Peer
    stub: Any
    identity: TurnIdentity
    token: str

    async def call(self, method: str, request: Any) -> Any:
        """Calls one method."""
        return await self.peer.call(
            getattr(self.stub, method), request, timeout=30, turn_token=self.token
        )

    async def remember(self, text: str, call_id: str = "", **fields: Any) -> pb.RememberResponse:
        """Tells a fact."""
        request = pb.RememberRequest(call_id=call_id or str(uuid4()), text=text, **fields)
        response: pb.RememberResponse = await self.call("Remember", request)
        return response

    async def forget(self, fact_id: str, call_id: str = "") -> None:
        """Forgets a fact."""
        await self.call("Forget", pb.ForgetRequest(call_id=call_id or str(uuid4()), fact_id=fact_id))

    async def recall(self, query: str, most: int = 10) -> list[pb.RecalledFact]:
        """The facts that fit."""
        response = await self.call("Recall", pb.RecallRequest(query=query, max_facts=most))
        return list(response.facts)

    async def texts(self, query: str, most: int = 10) -> list[str]:
        """Their texts."""
        return [found.fact.text for found in await self.recall(query, most)]

    async def add(self, name: str, text: str, call_id: str = "") -> pb.EditNoteResponse:
        """Adds a note."""
        return await self.edit(name, pb.NOTE_ACTION_ADD, text=text, call_id=call_id)

    async def edit(self, name: str, action: Any, call_id: str = "", **fields: Any) -> pb.EditNoteResponse:
        """Edits a note."""
        request = pb.EditNoteRequest(call_id=call_id or str(uuid4()), name=name, action=action, **fields)
        response: pb.EditNoteResponse = await self.call("EditNote", request)
        return response

    async def notes(self, name: str) -> list[str]:
        """A document's entries."""
        response = await self.call("GetNotes", pb.GetNotesRequest())
        return [e.text for note in response.notes if note.name == name for e in note.entries]


class Memory:
    """A served memory."""

    def __init__(self, peer: Peer, database: Database) -> None:
        self._peer = peer
        self.database = database

    def turn(self, identity: TurnIdentity | None = None, **changes: Any) -> Turn:
        """A turn of this identity, or of a new scope."""
        identity = replace(identity or new_identity(), **changes)
        stub: Any = memory_pb2_grpc.MemoryServiceStub(self._peer.channel)
        return Turn(self._peer, stub, identity, SIGNER.sign(identity))


@asynccontextmanager
async def served(database_url: str) -> AsyncIterator[Memory]:
    """Serves memory on a database, over real gRPC."""
    database = Database(database_url, size=16)
    await database.open()
    api = ServedApi(
        "herma.api.memory.v1.MemoryService",
        memory_pb2_grpc.add_MemoryServiceServicer_to_server,
        MemoryServicer(
            NoteStore(database),
            FactStore(database, UuidV7Factory(), stop_terms()),
            TurnTokenVerifier(SIGNER.public_key_pem),
        ),
        frozenset({"agent-runner"}),
    )
    server = RpcServer(ServiceIdentity("memory", KEYS), [api], "127.0.0.1:0")
    await server.start()
    try:
        caller = ServiceIdentity("agent-runner", KEYS)
        async with Peer("memory", f"127.0.0.1:{server.port}", caller) as peer:
            yield Memory(peer, database)
    finally:
        await server.stop(1)
        await database.close()
