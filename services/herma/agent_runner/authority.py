"""session-authority as the runner sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from herma.api.lease.v1 import lease_pb2, lease_pb2_grpc
from herma.common.rpc import Peer

# The newest version of ledger records that this release reads.
LEDGER_VERSION = 1


class Authority:
    """Leases and fenced writes."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = lease_pb2_grpc.LeaseServiceStub(peer.channel)

    async def claim(self, request_id: str, runner_id: str, wait: float) -> lease_pb2.Lease | None:
        """A lease, waiting up to `wait` seconds for one.  Repeat it with the same request id."""
        request = lease_pb2.ClaimRequest(
            request_id=request_id, runner_id=runner_id, ledger_version=LEDGER_VERSION
        )
        request.wait.FromMilliseconds(int(wait * 1000))
        response = await self._peer.call(self._stub.Claim, request, timeout=wait + 10, retry=True)
        return response.lease if response.HasField("lease") else None

    async def renew(self, turn_token: str, timeout: float) -> lease_pb2.RenewResponse:
        """Extends a lease."""
        response: lease_pb2.RenewResponse = await self._peer.call(
            self._stub.Renew, lease_pb2.RenewRequest(), timeout=timeout, turn_token=turn_token
        )
        return response

    async def append(
        self, turn_token: str, request: lease_pb2.AppendRequest, timeout: float
    ) -> lease_pb2.AppendResponse:
        """Writes one step; a repeat of the same step is harmless."""
        response: lease_pb2.AppendResponse = await self._peer.call(
            self._stub.Append, request, timeout=timeout, turn_token=turn_token, retry=True
        )
        return response

    async def release(self, turn_token: str, reason: str) -> None:
        """Gives a lease back."""
        await self._peer.call(
            self._stub.Release,
            lease_pb2.ReleaseRequest(reason=reason),
            timeout=3,
            turn_token=turn_token,
        )

    async def publish_deltas(self, requests: AsyncIterator[lease_pb2.PublishDeltasRequest]) -> None:
        """Shows streamed text until the authority stops or the call is cut."""
        await self._peer.call(self._stub.PublishDeltas, requests, timeout=3600)

    def watch_signals(self, runner_id: str) -> AsyncIterator[lease_pb2.WatchSignalsResponse]:
        """What running turns must notice."""
        return self._peer.stream(
            self._stub.WatchSignals,
            lease_pb2.WatchSignalsRequest(runner_id=runner_id),
            timeout=3600,
        )
