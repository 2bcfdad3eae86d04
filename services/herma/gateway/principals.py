"""Principals and grants of session-authority as the gateway sees them."""

from __future__ import annotations

from typing import Any

from herma.api.ledger.v1 import ledger_pb2
from herma.api.principal.v1 import principal_pb2, principal_pb2_grpc
from herma.common.rpc import Peer

_TIMEOUT = 20.0


class Principals:
    """Who acts for a tenant, and what they may do with its profiles."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = principal_pb2_grpc.PrincipalServiceStub(peer.channel)

    async def create(
        self, caller: ledger_pb2.Caller, subject: str, name: str, role: str
    ) -> principal_pb2.Principal:
        """Makes a service account."""
        response: principal_pb2.CreatePrincipalResponse = await self._peer.call(
            self._stub.CreatePrincipal,
            principal_pb2.CreatePrincipalRequest(caller=caller, subject=subject, name=name, role=role),
            timeout=_TIMEOUT,
        )
        return response.principal

    async def list(
        self, caller: ledger_pb2.Caller, page_size: int, page_token: str
    ) -> principal_pb2.ListPrincipalsResponse:
        """Lists principals."""
        found: principal_pb2.ListPrincipalsResponse = await self._peer.call(
            self._stub.ListPrincipals,
            principal_pb2.ListPrincipalsRequest(
                caller=caller, page_size=page_size, page_token=page_token
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def get(self, caller: ledger_pb2.Caller, principal_id: str) -> principal_pb2.Principal:
        """Reads a principal."""
        response: principal_pb2.GetPrincipalResponse = await self._peer.call(
            self._stub.GetPrincipal,
            principal_pb2.GetPrincipalRequest(caller=caller, principal_id=principal_id),
            timeout=_TIMEOUT,
            retry=True,
        )
        return response.principal

    async def change(
        self,
        caller: ledger_pb2.Caller,
        principal_id: str,
        name: str | None,
        role: str | None,
        disabled: bool | None,
        expected_version: int,
    ) -> principal_pb2.Principal:
        """Changes a principal; None stays."""
        response: principal_pb2.UpdatePrincipalResponse = await self._peer.call(
            self._stub.UpdatePrincipal,
            principal_pb2.UpdatePrincipalRequest(
                caller=caller,
                principal_id=principal_id,
                name=name,
                role=role,
                disabled=disabled,
                expected_version=expected_version,
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return response.principal

    async def add_grant(
        self, caller: ledger_pb2.Caller, principal_id: str, profile: str, right: str
    ) -> principal_pb2.Grant:
        """Gives a right."""
        response: principal_pb2.AddGrantResponse = await self._peer.call(
            self._stub.AddGrant,
            principal_pb2.AddGrantRequest(
                caller=caller, principal_id=principal_id, profile=profile, right=right
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return response.grant

    async def list_grants(
        self,
        caller: ledger_pb2.Caller,
        principal_id: str,
        profile: str,
        page_size: int,
        page_token: str,
    ) -> principal_pb2.ListGrantsResponse:
        """Lists grants."""
        found: principal_pb2.ListGrantsResponse = await self._peer.call(
            self._stub.ListGrants,
            principal_pb2.ListGrantsRequest(
                caller=caller,
                principal_id=principal_id,
                profile=profile,
                page_size=page_size,
                page_token=page_token,
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def remove_grant(self, caller: ledger_pb2.Caller, grant_id: str) -> None:
        """Takes a grant back."""
        await self._peer.call(
            self._stub.RemoveGrant,
            principal_pb2.RemoveGrantRequest(caller=caller, grant_id=grant_id),
            timeout=_TIMEOUT,
            retry=True,
        )
