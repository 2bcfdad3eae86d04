"""Issuers of session-authority as the gateway sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herma.api.issuer.v1 import issuer_pb2, issuer_pb2_grpc
from herma.api.ledger.v1 import ledger_pb2
from herma.common.rpc import Peer

_TIMEOUT = 20.0


class Issuers:
    """Whose tokens are accepted."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = issuer_pb2_grpc.IssuerServiceStub(peer.channel)

    async def register(self, caller: ledger_pb2.Caller, terms: issuer_pb2.Issuer) -> issuer_pb2.Issuer:
        """Accepts an issuer."""
        response: issuer_pb2.RegisterIssuerResponse = await self._peer.call(
            self._stub.RegisterIssuer,
            issuer_pb2.RegisterIssuerRequest(caller=caller, issuer=terms),
            timeout=_TIMEOUT,
        )
        return response.issuer

    async def list(
        self, caller: ledger_pb2.Caller, page_size: int, page_token: str
    ) -> issuer_pb2.ListIssuersResponse:
        """Lists issuers."""
        found: issuer_pb2.ListIssuersResponse = await self._peer.call(
            self._stub.ListIssuers,
            issuer_pb2.ListIssuersRequest(caller=caller, page_size=page_size, page_token=page_token),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def remove(self, caller: ledger_pb2.Caller, issuer_id: str) -> None:
        """Accepts an issuer no more."""
        await self._peer.call(
            self._stub.RemoveIssuer,
            issuer_pb2.RemoveIssuerRequest(caller=caller, issuer_id=issuer_id),
            timeout=_TIMEOUT,
            retry=True,
        )

    async def find(self, issuer: str, audiences: Sequence[str]) -> issuer_pb2.FindIssuerResponse:
        """Who accepts the tokens of an issuer for one of the audiences."""
        found: issuer_pb2.FindIssuerResponse = await self._peer.call(
            self._stub.FindIssuer,
            issuer_pb2.FindIssuerRequest(issuer=issuer, audiences=audiences),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found
