"""Composition of session-authority: the only place that reads settings and constructs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

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
    audit = AuditLog(database)
    refusals = Refusals(audit)
    anchors = Anchors(audit, settings.audit_anchor_dir, str(new_id()))
    keys = {pair: key.get_secret_value() for pair, key in settings.service_keys.items()}
    server = RpcServer(
        ServiceIdentity(NAME, ServiceKeys(keys)),
        _apis(
            SessionServicer(
                SessionStore(database, new_id),
                Deletions(DeletionStore(database, new_id), belfry),
                Subscriptions(EventLog(database), belfry),
                belfry,
            ),
            IdentityServicer(
                CallerStore(database, new_id),
                TenantStore(database, new_id),
                KeyStore(database, new_id),
                refusals,
            ),
            PrincipalServicer(
                PrincipalStore(database, new_id), GrantStore(database, new_id), refusals, belfry
            ),
            IssuerServicer(IssuerStore(database, new_id), refusals),
            ProfileServicer(ProfileStore(database, new_id), refusals),
            AuditServicer(audit, anchors),
            UsageServicer(UsageStore(database)),
            lease_servicer,
        ),
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


def _apis(
    sessions: SessionServicer,
    identities: IdentityServicer,
    principals: PrincipalServicer,
    issuers: IssuerServicer,
    profiles: ProfileServicer,
    audit: AuditServicer,
    usage: UsageServicer,
    leases: LeaseServicer,
) -> list[ServedApi]:
    lease_api = "herma.api.lease.v1.LeaseService"
    return [
        ServedApi(
            "herma.api.session.v1.SessionService",
            session_pb2_grpc.add_SessionServiceServicer_to_server,
            sessions,
            frozenset({"gateway"}),
            untraced=frozenset({"/herma.api.session.v1.SessionService/Subscribe"}),
        ),
        ServedApi(
            "herma.api.identity.v1.IdentityService",
            identity_pb2_grpc.add_IdentityServiceServicer_to_server,
            identities,
            frozenset({"gateway", "operator"}),
        ),
        ServedApi(
            "herma.api.audit.v1.AuditService",
            audit_pb2_grpc.add_AuditServiceServicer_to_server,
            audit,
            frozenset({"gateway"}),
        ),
        ServedApi(
            "herma.api.usage.v1.UsageService",
            usage_pb2_grpc.add_UsageServiceServicer_to_server,
            usage,
            frozenset({"gateway"}),
        ),
        ServedApi(
            "herma.api.principal.v1.PrincipalService",
            principal_pb2_grpc.add_PrincipalServiceServicer_to_server,
            principals,
            frozenset({"gateway"}),
        ),
        ServedApi(
            "herma.api.issuer.v1.IssuerService",
            issuer_pb2_grpc.add_IssuerServiceServicer_to_server,
            issuers,
            frozenset({"gateway"}),
        ),
        ServedApi(
            "herma.api.profile.v1.ProfileService",
            profile_pb2_grpc.add_ProfileServiceServicer_to_server,
            profiles,
            frozenset({"gateway"}),
        ),
        ServedApi(
            lease_api,
            lease_pb2_grpc.add_LeaseServiceServicer_to_server,
            leases,
            frozenset({"agent-runner"}),
            untraced=frozenset(
                f"/{lease_api}/{method}" for method in ("Claim", "Renew", "PublishDeltas", "WatchSignals")
            ),
        ),
    ]


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
