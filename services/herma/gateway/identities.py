"""Callers, tenants and keys of session-authority as the gateway sees them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from herma.api.identity.v1 import identity_pb2, identity_pb2_grpc
from herma.api.ledger.v1 import ledger_pb2
from herma.common.rpc import Peer

_TIMEOUT = 20.0


class Identities:
    """Who calls, and the secrets by which they are known."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = identity_pb2_grpc.IdentityServiceStub(peer.channel)

    async def authenticate(self, key: str, timeout: float = 0) -> identity_pb2.AuthenticateResponse:
        """Who presents a key."""
        found: identity_pb2.AuthenticateResponse = await self._peer.call(
            self._stub.Authenticate,
            identity_pb2.AuthenticateRequest(key=key),
            timeout=timeout or _TIMEOUT,
            retry=True,
        )
        return found

    async def enter(
        self, tenant_id: str, issuer_id: str, subject: str, name: str, groups: Sequence[str]
    ) -> identity_pb2.EnterResponse:
        """Who presents a token that was verified."""
        found: identity_pb2.EnterResponse = await self._peer.call(
            self._stub.Enter,
            identity_pb2.EnterRequest(
                tenant_id=tenant_id, issuer_id=issuer_id, subject=subject, name=name, groups=groups
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def who_am_i(self, caller: ledger_pb2.Caller) -> identity_pb2.WhoAmIResponse:
        """Who the caller is."""
        found: identity_pb2.WhoAmIResponse = await self._peer.call(
            self._stub.WhoAmI,
            identity_pb2.WhoAmIRequest(caller=caller),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def create_tenant(
        self, caller: ledger_pb2.Caller, name: str, idempotency_key: str
    ) -> identity_pb2.CreateTenantResponse:
        """Makes a tenant."""
        found: identity_pb2.CreateTenantResponse = await self._peer.call(
            self._stub.CreateTenant,
            identity_pb2.CreateTenantRequest(
                caller=caller,
                name=name,
                idempotency_key=idempotency_key,
            ),
            timeout=_TIMEOUT,
            retry=bool(idempotency_key),
        )
        return found

    async def list_tenants(
        self, caller: ledger_pb2.Caller, page_size: int, page_token: str
    ) -> identity_pb2.ListTenantsResponse:
        """Lists tenants."""
        found: identity_pb2.ListTenantsResponse = await self._peer.call(
            self._stub.ListTenants,
            identity_pb2.ListTenantsRequest(
                caller=caller,
                page_size=page_size,
                page_token=page_token,
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def create_key(
        self,
        caller: ledger_pb2.Caller,
        name: str,
        scopes: Sequence[str],
        expires_at: datetime | None,
        idempotency_key: str,
        principal_id: str,
        manages: bool,
    ) -> identity_pb2.CreateKeyResponse:
        """Makes a key."""
        request = identity_pb2.CreateKeyRequest(
            caller=caller,
            name=name,
            scopes=scopes,
            idempotency_key=idempotency_key,
            principal_id=principal_id,
            manages=manages,
        )
        if expires_at is not None:
            request.expires_at.FromDatetime(expires_at)
        found: identity_pb2.CreateKeyResponse = await self._peer.call(
            self._stub.CreateKey, request, timeout=_TIMEOUT
        )
        return found

    async def rotate_key(
        self,
        caller: ledger_pb2.Caller,
        key_id: str,
        overlap_seconds: int,
        idempotency_key: str,
        manages: bool,
    ) -> identity_pb2.RotateKeyResponse:
        """Replaces a key."""
        request = identity_pb2.RotateKeyRequest(
            caller=caller,
            key_id=key_id,
            idempotency_key=idempotency_key,
            manages=manages,
        )
        request.overlap.FromSeconds(overlap_seconds)
        found: identity_pb2.RotateKeyResponse = await self._peer.call(
            self._stub.RotateKey, request, timeout=_TIMEOUT
        )
        return found

    async def list_keys(
        self,
        caller: ledger_pb2.Caller,
        principal_id: str,
        page_size: int,
        page_token: str,
        manages: bool,
    ) -> identity_pb2.ListKeysResponse:
        """Lists keys."""
        found: identity_pb2.ListKeysResponse = await self._peer.call(
            self._stub.ListKeys,
            identity_pb2.ListKeysRequest(
                caller=caller,
                principal_id=principal_id,
                page_size=page_size,
                page_token=page_token,
                manages=manages,
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def revoke_key(self, caller: ledger_pb2.Caller, key_id: str, manages: bool) -> identity_pb2.Key:
        """Revokes a key."""
        response: identity_pb2.RevokeKeyResponse = await self._peer.call(
            self._stub.RevokeKey,
            identity_pb2.RevokeKeyRequest(caller=caller, key_id=key_id, manages=manages),
            timeout=_TIMEOUT,
            retry=True,
        )
        return response.key
