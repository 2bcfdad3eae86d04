"""The audit log of a tenant."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from herma.api.audit.v1 import audit_pb2
from herma.common.lines import LINE_PATTERN
from herma.gateway.bodies import Moment
from herma.gateway.routes.parts import (
    REFUSALS,
    Auditor,
    PageSize,
    PageToken,
    TheAuthority,
    known_id,
)

router = APIRouter(prefix="/v1/audit", tags=["audit"], responses=REFUSALS)


class RecordBody(BaseModel):
    """An entry of the audit log.  `hash` covers all other fields: see docs/audit.md."""

    tenant_id: str
    seq: int
    at: str
    principal_id: str | None
    key_id: str | None
    action: str
    target: str
    outcome: str
    details: dict[str, Any]
    trace_id: str
    previous: str
    hash: str


class RecordPage(BaseModel):
    """Entries of the audit log."""

    items: list[RecordBody]
    next_page_token: str


class FindingBody(BaseModel):
    """What does not hold, at which entry."""

    seq: int
    text: str


class VerdictBody(BaseModel):
    """What checking the log found.  `anchors` is how many ends outside of the database were compared."""

    holds: bool
    records: int
    anchors: int
    findings: list[FindingBody]


@router.get("")
async def list_records(
    visitor: Auditor,
    authority: TheAuthority,
    page_size: PageSize = 50,
    page_token: PageToken = "",
    action: Annotated[str, Query(max_length=100, pattern=LINE_PATTERN)] = "",
    principal: Annotated[str, Query(max_length=64)] = "",
    target: Annotated[str, Query(max_length=200, pattern=LINE_PATTERN)] = "",
    since: Moment | None = None,
    until: Moment | None = None,
    order: Literal["newest", "oldest"] = "newest",
) -> RecordPage:
    """Lists what was done to your tenant, and by whom; newest first, or in `order=oldest`."""
    page = await authority.audit.list(
        visitor.caller,
        action,
        known_id(principal, "principal") if principal else "",
        target,
        since,
        until,
        order == "oldest",
        page_size,
        page_token,
    )
    return RecordPage(
        items=[_body(visitor.caller.tenant_id, record) for record in page.records],
        next_page_token=page.next_page_token,
    )


@router.get("/verification")
async def verify_log(visitor: Auditor, authority: TheAuthority) -> VerdictBody:
    """Checks the whole log: nothing was changed, taken out or cut off since it was written."""
    found = await authority.audit.verify(visitor.caller)
    return VerdictBody(
        holds=not found.findings,
        records=found.records,
        anchors=found.anchors,
        findings=[FindingBody(seq=finding.seq, text=finding.text) for finding in found.findings],
    )


def _body(tenant_id: str, record: audit_pb2.Record) -> RecordBody:
    at: datetime = record.at.ToDatetime(UTC)
    return RecordBody(
        tenant_id=tenant_id,
        seq=record.seq,
        at=at.isoformat(timespec="microseconds"),
        principal_id=record.principal_id or None,
        key_id=record.key_id or None,
        action=record.action,
        target=record.target,
        outcome=record.outcome,
        details=json.loads(record.details),
        trace_id=record.trace_id,
        previous=record.previous.hex(),
        hash=record.hash.hex(),
    )
