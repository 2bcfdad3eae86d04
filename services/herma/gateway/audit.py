"""Audit logs of session-authority as the gateway sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from herma.api.audit.v1 import audit_pb2, audit_pb2_grpc
from herma.api.ledger.v1 import ledger_pb2
from herma.common.rpc import Peer

_TIMEOUT = 20.0
# A long log is read whole.
_VERIFY_TIMEOUT = 120.0


class Audit:
    """What was done to a tenant."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = audit_pb2_grpc.AuditServiceStub(peer.channel)

    async def list(
        self,
        caller: ledger_pb2.Caller,
        action: str,
        principal_id: str,
        target: str,
        since: datetime | None,
        until: datetime | None,
        oldest_first: bool,
        page_size: int,
        page_token: str,
    ) -> audit_pb2.ListRecordsResponse:
        """Lists records."""
        request = audit_pb2.ListRecordsRequest(
            caller=caller,
            action=action,
            principal_id=principal_id,
            target=target,
            oldest_first=oldest_first,
            page_size=page_size,
            page_token=page_token,
        )
        if since is not None:
            request.since.FromDatetime(since)
        if until is not None:
            request.until.FromDatetime(until)
        found: audit_pb2.ListRecordsResponse = await self._peer.call(
            self._stub.ListRecords, request, timeout=_TIMEOUT, retry=True
        )
        return found

    async def verify(self, caller: ledger_pb2.Caller) -> audit_pb2.VerifyLogResponse:
        """Checks the log."""
        found: audit_pb2.VerifyLogResponse = await self._peer.call(
            self._stub.VerifyLog,
            audit_pb2.VerifyLogRequest(caller=caller),
            timeout=_VERIFY_TIMEOUT,
            retry=True,
        )
        return found
