"""The gRPC face of audit logs: unpack, call, pack."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from herma.api.audit.v1 import audit_pb2, audit_pb2_grpc
from herma.session_authority.anchoring import Anchors
from herma.session_authority.domain import admission
from herma.session_authority.domain.audit import Record
from herma.session_authority.identity_wire import optional_id
from herma.session_authority.paging import number_of_token, page_size, to_token
from herma.session_authority.store.audit import AuditFilter, AuditLog
from herma.session_authority.wire import caller_of, timestamp


class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """Audit logs."""

    def __init__(self, log: AuditLog, anchors: Anchors) -> None:
        self._log = log
        self._anchors = anchors

    async def ListRecords(  # noqa: N802  # the proto's name
        self, request: audit_pb2.ListRecordsRequest, context: Any
    ) -> audit_pb2.ListRecordsResponse:
        size = page_size(request.page_size)
        found = await self._log.list(
            caller_of(request.caller),
            _filter(request),
            number_of_token(request.page_token),
            size + 1,
            oldest_first=request.oldest_first,
        )
        page = found[:size]
        return audit_pb2.ListRecordsResponse(
            records=[_record_message(record) for record in page],
            next_page_token=to_token(str(page[-1].seq)) if len(found) > size else "",
        )

    async def VerifyLog(  # noqa: N802
        self, request: audit_pb2.VerifyLogRequest, context: Any
    ) -> audit_pb2.VerifyLogResponse:
        caller = caller_of(request.caller)
        verdict = await self._log.verify(caller, await self._anchors.of_tenant(caller.tenant_id))
        return audit_pb2.VerifyLogResponse(
            records=verdict.records,
            anchors=verdict.anchors,
            findings=[
                audit_pb2.Finding(seq=finding.seq, text=finding.text) for finding in verdict.findings
            ],
        )


def _filter(request: audit_pb2.ListRecordsRequest) -> AuditFilter:
    admission.check_line(request.action, "action", admission.MAX_KEY)
    admission.check_line(request.target, "target", admission.MAX_KEY)
    return AuditFilter(
        request.action,
        optional_id(request.principal_id, "principal_id"),
        request.target,
        request.since.ToDatetime(UTC) if request.HasField("since") else None,
        request.until.ToDatetime(UTC) if request.HasField("until") else None,
    )


def _record_message(record: Record) -> audit_pb2.Record:
    return audit_pb2.Record(
        seq=record.seq,
        at=timestamp(record.at),
        principal_id=str(record.principal_id or ""),
        key_id=str(record.key_id or ""),
        action=record.action,
        target=record.target,
        outcome=record.outcome,
        details=record.details.encode(),
        trace_id=record.trace_id,
        previous=record.previous,
        hash=record.hash,
    )
