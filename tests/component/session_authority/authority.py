"""The stores under test, and the few moves that every test makes."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from herma.common.ids import UuidV7Factory
from herma.common.postgres import Database
from herma.common.turn_token import TurnIdentity
from herma.session_authority.bells import Belfry
from herma.session_authority.deletion import Deletions
from herma.session_authority.domain.keys import mint_key
from herma.session_authority.domain.model import Admission, Caller, CallState, Lease, TurnState, Usage
from herma.session_authority.domain.operations import (
    BeginMessage,
    CompleteCall,
    CompleteMessage,
    DecideCall,
    Finish,
    Operation,
    ProposedCall,
    StartCall,
    Step,
)
from herma.session_authority.domain.rights import Role
from herma.session_authority.store.audit import AuditLog
from herma.session_authority.store.callers import CallerStore
from herma.session_authority.store.deletions import DeletionStore
from herma.session_authority.store.deltas import DeltaWriter
from herma.session_authority.store.events import EventLog
from herma.session_authority.store.grants import GrantStore
from herma.session_authority.store.issuers import IssuerStore
from herma.session_authority.store.keys import KeyStore
from herma.session_authority.store.leases import LeaseStore
from herma.session_authority.store.ledger import LedgerStore
from herma.session_authority.store.principals import PrincipalStore
from herma.session_authority.store.profiles import ProfileStore
from herma.session_authority.store.sessions import SessionStore
from herma.session_authority.store.tenants import TenantStore
from herma.session_authority.subscription import Subscriptions

ANSWERED = Finish(TurnState.COMPLETED, "final_answer", "")
BEGIN = BeginMessage("openai", "scripted", "You are Herma.", "{}", "")


@dataclass(frozen=True, slots=True)
class Owner:
    """A tenant's owner with the first key."""

    caller: Caller
    key: str

    @property
    def key_id(self) -> UUID:
        """Of the first key."""
        assert self.caller.key_id is not None
        return self.caller.key_id


class Authority:
    """The stores of one replica, with an administrator's connection to look behind them."""

    def __init__(self, admin: asyncpg.Connection[asyncpg.Record], service_url: str) -> None:
        self.admin = admin
        self.service_url = service_url
        self.database = Database(service_url, size=24)
        self.audit = AuditLog(self.database)
        self.new_id = UuidV7Factory()
        self._operator_key = mint_key()
        self.belfry = Belfry(self.database, str(self.new_id()))
        self.sessions = SessionStore(self.database, self.new_id)
        self.leases = LeaseStore(self.database, self.new_id, timedelta(seconds=30))
        self.ledger = LedgerStore(self.database, self.new_id)
        self.tenants = TenantStore(self.database, self.new_id)
        self.keys = KeyStore(self.database, self.new_id)
        self.principals = PrincipalStore(self.database, self.new_id)
        self.grants = GrantStore(self.database, self.new_id)
        self.issuers = IssuerStore(self.database, self.new_id)
        self.callers = CallerStore(self.database, self.new_id)
        self.deltas = DeltaWriter(self.database, self.belfry.ring_session)
        self.deletion_store = DeletionStore(self.database, self.new_id)
        self.deletions = Deletions(self.deletion_store, self.belfry)
        self.profiles = ProfileStore(self.database, self.new_id)
        self.subscriptions = Subscriptions(EventLog(self.database), self.belfry)

    async def owner(self, name: str = "acme") -> Owner:
        """A new tenant's owner."""
        operator = await self.operator()
        _, key = await self.tenants.create(operator.caller, name, "")
        who = await self.keys.authenticate(key)
        return Owner(who.caller, key)

    async def operator(self) -> Owner:
        """The installation's operator."""
        await self.tenants.bootstrap(self._operator_key)
        who = await self.keys.authenticate(self._operator_key)
        return Owner(who.caller, self._operator_key)

    async def colleague(
        self, owner: Owner, role: Role = Role.MEMBER, subject: str = "colleague"
    ) -> Owner:
        """Another principal of the owner's tenant, with a key of its own."""
        made = await self.principals.create_service(owner.caller, subject, "", role)
        _, key = await self.keys.create(owner.caller, "", [], None, principal_id=made.id, manages=True)
        who = await self.keys.authenticate(key)
        return Owner(who.caller, key)

    async def session(self, name: str = "acme") -> tuple[Caller, UUID]:
        """A session of a new tenant."""
        caller = (await self.owner(name)).caller
        return caller, (await self.sessions.create(caller, "", "", "", "")).id

    async def submit(
        self, caller: Caller, session_id: UUID, text: str = "Hi", key: str = ""
    ) -> Admission:
        """Submits a message."""
        return await self.sessions.submit(caller, session_id, text, key, "")

    async def claim(self) -> Lease:
        """Claims the next turn, which there must be."""
        lease = await self.leases.claim(uuid4(), uuid4())
        assert lease is not None
        return lease

    async def claimed(self) -> tuple[Caller, Lease]:
        """A turn of a new tenant, claimed."""
        caller, session_id = await self.session()
        await self.submit(caller, session_id)
        return caller, await self.claim()

    async def propose(self, lease: Lease, step: int, *tools: str) -> list[UUID]:
        """Appends two steps: a message began, and it was completed with calls; the calls' ids."""
        begun = await self.append(lease, step, BEGIN)
        message = completed(begun.message_ids[0], "", *tools)
        return list((await self.append(lease, step + 1, message)).call_ids)

    async def append(
        self, lease: Lease, number: int, *operations: Operation, finish: Finish | None = None
    ):
        """Appends a step."""
        return await self.ledger.append(identity_of(lease), step_of(number, *operations, finish=finish))

    async def lapse(self) -> None:
        """Lets the time of every lease run out."""
        await self.admin.execute("UPDATE authority.leases SET expires_at = now() - interval '1 second'")

    async def events(self, session_id: UUID) -> list[tuple[int, str, UUID]]:
        """Seq, kind and turn of a session's events as they are stored."""
        rows = await self.admin.fetch(
            "SELECT seq, kind, turn_id FROM authority.events WHERE session_id = $1 ORDER BY seq",
            session_id,
        )
        return [(row["seq"], row["kind"], row["turn_id"]) for row in rows]

    async def everything(self) -> dict[str, list[Any]]:
        """Every row of every table, to prove that nothing was written."""
        tables = await self.admin.fetch(
            "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'authority'"
        )
        return {
            table["name"]: [
                json.loads(row["row"])
                for row in await self.admin.fetch(
                    f"SELECT to_jsonb(t)::text AS row FROM authority.{table['name']} t ORDER BY 1"
                )
            ]
            for table in tables
        }

    async def count(self, table: str) -> int:
        """How many rows a table has."""
        found: int = await self.admin.fetchval(f"SELECT count(*) FROM authority.{table}")
        return found


def identity_of(lease: Lease) -> TurnIdentity:
    """What the lease's turn token says."""
    return TurnIdentity(
        tenant_id=lease.tenant_id,
        session_id=lease.session_id,
        turn_id=lease.turn.id,
        profile_id=lease.profile.id,
        principal_id=lease.principal_id,
        trust=lease.trust,
        epoch=lease.epoch,
        expires_at=int(time.time()) + 3600,
    )


def step_of(number: int, *operations: Operation, finish: Finish | None = None) -> Step:
    """A step with a digest of its content."""
    digest = hashlib.sha256(repr((operations, finish)).encode()).digest()
    return Step(number, digest, operations, finish)


def completed(message_id: UUID, content: str, *tools: str) -> CompleteMessage:
    """A model's whole answer that calls these tools."""
    calls = [ProposedCall(f"provider-{number}", tool, "{}") for number, tool in enumerate(tools)]
    return CompleteMessage(message_id, content, calls, Usage(10, 5), "stop", "r-1", "scripted")


def allowed(call_id: UUID) -> DecideCall:
    """The policy lets a call run."""
    return DecideCall(call_id, CallState.ALLOWED, "default")


def started(call_id: UUID) -> StartCall:
    """A call starts in a sandbox."""
    return StartCall(call_id, "sandbox-1")


def result(call_id: UUID, content: str) -> CompleteCall:
    """A call's result."""
    return CompleteCall(call_id, CallState.COMPLETED, content, False, "")
