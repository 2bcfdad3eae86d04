"""Usage of session-authority as the gateway sees it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from herma.api.ledger.v1 import ledger_pb2
from herma.api.usage.v1 import usage_pb2, usage_pb2_grpc
from herma.common.rpc import Peer

_TIMEOUT = 20.0


class UsageSums:
    """What was used."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = usage_pb2_grpc.UsageServiceStub(peer.channel)

    async def list(
        self,
        caller: ledger_pb2.Caller,
        of_tenant: bool,
        by: Sequence[str],
        since: datetime | None,
        until: datetime | None,
        page_size: int,
        page_token: str,
    ) -> usage_pb2.SumUsageResponse:
        """Sums by `day`, `session`, `profile` and `principal`."""
        request = usage_pb2.SumUsageRequest(
            caller=caller,
            of_tenant=of_tenant,
            by=[usage_pb2.Grouping.Value(f"GROUPING_{name.upper()}") for name in by],
            page_size=page_size,
            page_token=page_token,
        )
        if since is not None:
            request.since.FromDatetime(since)
        if until is not None:
            request.until.FromDatetime(until)
        found: usage_pb2.SumUsageResponse = await self._peer.call(
            self._stub.SumUsage, request, timeout=_TIMEOUT, retry=True
        )
        return found
