"""The gRPC face of identities: unpack, call, pack."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

from herma.api.identity.v1 import identity_pb2, identity_pb2_grpc
from herma.common.errors import InvalidArgument, PermissionDenied
from herma.common.ids import parse_id
from herma.common.rpc import current_caller
from herma.session_authority import identity_wire
from herma.session_authority.domain import admission
from herma.session_authority.domain.audit import Action
from herma.session_authority.identity_wire import optional_id
from herma.session_authority.paging import from_token, id_of_token, page_size, to_token
from herma.session_authority.refusals import Refusals
from herma.session_authority.store.callers import CallerStore
from herma.session_authority.store.keys import KeyStore
from herma.session_authority.store.tenants import TenantStore
from herma.session_authority.wire import caller_of, timestamp

_MAX_OVERLAP = timedelta(days=30)


class IdentityServicer(identity_pb2_grpc.IdentityServiceServicer):
    """Callers, tenants and keys."""

    def __init__(
        self, callers: CallerStore, tenants: TenantStore, keys: KeyStore, refusals: Refusals
    ) -> None:
        self._callers = callers
        self._tenants = tenants
        self._keys = keys
        self._refusals = refusals

    async def Authenticate(  # noqa: N802  # the proto's name
        self, request: identity_pb2.AuthenticateRequest, context: Any
    ) -> identity_pb2.AuthenticateResponse:
        who = await self._keys.authenticate(request.key)
        return identity_pb2.AuthenticateResponse(
            caller=identity_wire.caller_message(who.caller),
            scopes=who.scopes,
            expires_at=timestamp(who.expires_at),
        )

    async def Enter(  # noqa: N802
        self, request: identity_pb2.EnterRequest, context: Any
    ) -> identity_pb2.EnterResponse:
        caller, scopes = await self._callers.enter(
            parse_id(request.tenant_id, "tenant_id"),
            parse_id(request.issuer_id, "issuer_id"),
            identity_wire.claims_of(request),
        )
        return identity_pb2.EnterResponse(caller=identity_wire.caller_message(caller), scopes=scopes)

    async def WhoAmI(  # noqa: N802
        self, request: identity_pb2.WhoAmIRequest, context: Any
    ) -> identity_pb2.WhoAmIResponse:
        found = await self._callers.who_am_i(caller_of(request.caller))
        return identity_pb2.WhoAmIResponse(
            tenant=identity_wire.tenant_message(found.tenant),
            principal=identity_wire.principal_message(found.principal),
            key=identity_wire.key_message(found.key) if found.key is not None else None,
        )

    async def CreateTenant(  # noqa: N802
        self, request: identity_pb2.CreateTenantRequest, context: Any
    ) -> identity_pb2.CreateTenantResponse:
        admission.check_tenant_name(request.name)
        admission.check_idempotency_key(request.idempotency_key)
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.TENANT_CREATED, request.name):
            tenant_id, key = await self._tenants.create(
                caller,
                request.name,
                request.idempotency_key,
            )
        return identity_pb2.CreateTenantResponse(tenant_id=str(tenant_id), name=request.name, key=key)

    async def ListTenants(  # noqa: N802
        self, request: identity_pb2.ListTenantsRequest, context: Any
    ) -> identity_pb2.ListTenantsResponse:
        size = page_size(request.page_size)
        after = from_token(request.page_token)
        admission.check_line(after, "page_token", admission.MAX_KEY)
        found = await self._tenants.list(
            caller_of(request.caller),
            after,
            size + 1,
        )
        page = found[:size]
        return identity_pb2.ListTenantsResponse(
            tenants=[identity_wire.tenant_message(tenant) for tenant in page],
            next_page_token=to_token(page[-1].name) if len(found) > size else "",
        )

    async def CreateKey(  # noqa: N802
        self, request: identity_pb2.CreateKeyRequest, context: Any
    ) -> identity_pb2.CreateKeyResponse:
        admission.check_line(request.name, "name", admission.MAX_KEY)
        admission.check_idempotency_key(request.idempotency_key)
        expires = request.expires_at.ToDatetime(UTC) if request.HasField("expires_at") else None
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.KEY_CREATED, request.principal_id):
            key, secret = await self._keys.create(
                caller,
                request.name,
                list(request.scopes),
                expires,
                request.idempotency_key,
                optional_id(request.principal_id, "principal_id"),
                request.manages,
            )
        return identity_pb2.CreateKeyResponse(key=identity_wire.key_message(key), secret=secret)

    async def ListKeys(  # noqa: N802
        self, request: identity_pb2.ListKeysRequest, context: Any
    ) -> identity_pb2.ListKeysResponse:
        size = page_size(request.page_size)
        found = await self._keys.list(
            caller_of(request.caller),
            optional_id(request.principal_id, "principal_id"),
            id_of_token(request.page_token),
            size + 1,
            request.manages,
        )
        page = found[:size]
        return identity_pb2.ListKeysResponse(
            keys=[identity_wire.key_message(key) for key in page],
            next_page_token=to_token(str(page[-1].id)) if len(found) > size else "",
        )

    async def RevokeKey(  # noqa: N802
        self, request: identity_pb2.RevokeKeyRequest, context: Any
    ) -> identity_pb2.RevokeKeyResponse:
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.KEY_REVOKED, request.key_id):
            key = await self._keys.revoke(caller, parse_id(request.key_id, "key_id"), request.manages)
        return identity_pb2.RevokeKeyResponse(key=identity_wire.key_message(key))

    async def RotateKey(  # noqa: N802
        self, request: identity_pb2.RotateKeyRequest, context: Any
    ) -> identity_pb2.RotateKeyResponse:
        admission.check_idempotency_key(request.idempotency_key)
        overlap = request.overlap.ToTimedelta()
        if not timedelta() <= overlap <= _MAX_OVERLAP:
            raise InvalidArgument("no such overlap", fields={"overlap": "0 to 30 days"})
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.KEY_ROTATED, request.key_id):
            made, secret, rotated = await self._keys.rotate(
                caller,
                parse_id(request.key_id, "key_id"),
                overlap,
                request.idempotency_key,
                request.manages,
            )
        return identity_pb2.RotateKeyResponse(
            key=identity_wire.key_message(made),
            secret=secret,
            rotated=identity_wire.key_message(rotated),
        )

    async def Bootstrap(  # noqa: N802
        self, request: identity_pb2.BootstrapRequest, context: Any
    ) -> identity_pb2.BootstrapResponse:
        if current_caller().service != "operator":
            raise PermissionDenied("only the installer may bootstrap")
        tenant_id = await self._tenants.bootstrap(request.operator_key)
        return identity_pb2.BootstrapResponse(tenant_id=str(tenant_id))
