"""Composition of session-authority: the only place that reads settings and constructs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

from herma.api.audit.v1 import audit_pb2_grpc
from herma.api.identity.v1 import identity_pb2_grpc
from herma.api.issuer.v1 import issuer_pb2_grpc
from herma.api.lease.v1 import lease_pb2_grpc
from herma.api.principal.v1 import principal_pb2_grpc
from herma.api.profile.v1 import profile_pb2_grpc
from herma.api.session.v1 import session_pb2_grpc
from herma.api.usage.v1 import usage_pb2_grpc
from herma.common.app import Lifecycle, run
from herma.common.errors import HermaError
from herma.common.ids import UuidV7Factory
from herma.common.logs import logger
from herma.common.postgres import Database, Listener
from herma.common.postgres.migrations import ServiceSchema
from herma.common.rpc import RpcServer, ServedApi, ServiceIdentity, ServiceKeys
from herma.common.turn_token import TurnTokenSigner, TurnTokenVerifier
from herma.session_authority import bells
from herma.session_authority.anchoring import Anchors
from herma.session_authority.audit_servicer import AuditServicer
from herma.session_authority.bells import Belfry
from herma.session_authority.deletion import Deletions
from herma.session_authority.identity_servicer import IdentityServicer
from herma.session_authority.issuer_servicer import IssuerServicer
from herma.session_authority.lease_servicer import LeaseServicer
from herma.session_authority.principal_servicer import PrincipalServicer
from herma.session_authority.profile_servicer import ProfileServicer
from herma.session_authority.refusals import Refusals
from herma.session_authority.servicer import SessionServicer
from herma.session_authority.settings import AuthoritySettings
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
from herma.session_authority.store.usage import UsageStore
from herma.session_authority.subscription import Subscriptions
from herma.session_authority.usage_servicer import UsageServicer

NAME = "session-authority"
SCHEMA = ServiceSchema("authority", "herma.session_authority")

# Services that speak for callers.
_ENTRANCES = frozenset({"gateway"})

_log = logger(__name__)


async def serve(settings: AuthoritySettings, lifecycle: Lifecycle) -> None:
    """Serves until asked to stop."""
    new_id = UuidV7Factory()
    database = Database(settings.database_url.get_secret_value(), size=settings.database_pool_size)
    await database.open()
    belfry = Belfry(database, str(new_id()))
    leases = LeaseStore(database, new_id, timedelta(seconds=settings.lease_ttl_seconds))
    deltas = DeltaWriter(database, belfry.ring_session)
    signer = TurnTokenSigner(settings.turn_token_key.get_secret_value().encode())
    lease_servicer = LeaseServicer(
        leases,
        LedgerStore(database, new_id),
        deltas,
        belfry,
        signer,
        TurnTokenVerifier(signer.public_key_pem),
    )
    anchors = Anchors(AuditLog(database), settings.audit_anchor_dir, str(new_id()))
    keys = {pair: key.get_secret_value() for pair, key in settings.service_keys.items()}
    server = RpcServer(
        ServiceIdentity(NAME, ServiceKeys(keys)),
        [
            *_session_apis(database, new_id, belfry),
            *_identity_apis(database, new_id, belfry, anchors),
            _lease_api(lease_servicer),
        ],
        settings.listen,
        with_reflection=settings.reflection,
    )
    listener = Listener(
        settings.listen_url,
        {channel: partial(belfry.heard, channel) for channel in bells.CHANNELS},
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(belfry.run()),
                tasks.create_task(deltas.run()),
                tasks.create_task(listener.run()),
                tasks.create_task(anchors.run(settings.audit_anchor_seconds)),
                tasks.create_task(_sweep(leases, belfry, settings.sweep_seconds)),
            ]
            await server.start()
            _log.info("serving", port=server.port)
            await lifecycle.stopping()
            await server.refuse()
            lease_servicer.close()
            await server.stop(2.0)
            await _anchor_last(anchors)
            for task in background:
                task.cancel()
    finally:
        await database.close()


def _session_apis(database: Database, new_id: Callable[[], UUID], belfry: Belfry) -> list[ServedApi]:
    """Sessions, and what they use."""
    sessions = SessionServicer(
        SessionStore(database, new_id),
        Deletions(DeletionStore(database, new_id), belfry),
        Subscriptions(EventLog(database), belfry),
        belfry,
    )
    api = "herma.api.session.v1.SessionService"
    return [
        ServedApi(
            api,
            session_pb2_grpc.add_SessionServiceServicer_to_server,
            sessions,
            _ENTRANCES,
            untraced=frozenset({f"/{api}/Subscribe"}),
        ),
        ServedApi(
            "herma.api.usage.v1.UsageService",
            usage_pb2_grpc.add_UsageServiceServicer_to_server,
            UsageServicer(UsageStore(database)),
            _ENTRANCES,
        ),
    ]


def _identity_apis(
    database: Database, new_id: Callable[[], UUID], belfry: Belfry, anchors: Anchors
) -> list[ServedApi]:
    """Who may do what, and what was done."""
    audit = AuditLog(database)
    refusals = Refusals(audit)
    identities = IdentityServicer(
        CallerStore(database, new_id),
        TenantStore(database, new_id),
        KeyStore(database, new_id),
        refusals,
    )
    principals = PrincipalServicer(
        PrincipalStore(database, new_id), GrantStore(database, new_id), refusals, belfry
    )
    return [
        ServedApi(
            "herma.api.identity.v1.IdentityService",
            identity_pb2_grpc.add_IdentityServiceServicer_to_server,
            identities,
            _ENTRANCES | {"operator"},
        ),
        ServedApi(
            "herma.api.principal.v1.PrincipalService",
            principal_pb2_grpc.add_PrincipalServiceServicer_to_server,
            principals,
            _ENTRANCES,
        ),
        ServedApi(
            "herma.api.issuer.v1.IssuerService",
            issuer_pb2_grpc.add_IssuerServiceServicer_to_server,
            IssuerServicer(IssuerStore(database, new_id), refusals),
            _ENTRANCES,
        ),
        ServedApi(
            "herma.api.profile.v1.ProfileService",
            profile_pb2_grpc.add_ProfileServiceServicer_to_server,
            ProfileServicer(ProfileStore(database, new_id), refusals),
            _ENTRANCES,
        ),
        ServedApi(
            "herma.api.audit.v1.AuditService",
            audit_pb2_grpc.add_AuditServiceServicer_to_server,
            AuditServicer(audit, anchors),
            _ENTRANCES,
        ),
    ]


def _lease_api(leases: LeaseServicer) -> ServedApi:
    api = "herma.api.lease.v1.LeaseService"
    polls = ("Claim", "Renew", "PublishDeltas", "WatchSignals")
    return ServedApi(
        api,
        lease_pb2_grpc.add_LeaseServiceServicer_to_server,
        leases,
        frozenset({"agent-runner"}),
        untraced=frozenset(f"/{api}/{method}" for method in polls),
    )


async def _anchor_last(anchors: Anchors) -> None:
    try:
        await anchors.anchor()
    except (HermaError, OSError) as error:
        _log.warning("audit logs were not anchored at the end", error=str(error))


async def _sweep(leases: LeaseStore, belfry: Belfry, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        try:
            if await leases.take_back_lapsed():
                belfry.ring_all()
                belfry.ring_work()
        except HermaError as error:
            _log.warning("lapsed leases were not looked for", reason=error.reason)


def main() -> None:
    """Runs the service with settings from the environment."""
    settings = AuthoritySettings()
    run(NAME, settings, lambda lifecycle: serve(settings, lifecycle), grace=settings.drain_seconds)
