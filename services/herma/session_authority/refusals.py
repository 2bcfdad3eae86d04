"""Refusals of what is audited: recorded, but no flood of them fills a log."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

from herma.common.errors import HermaError, PermissionDenied
from herma.common.logs import logger
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.model import Caller
from herma.session_authority.store.audit import AuditLog

# Records of refusals that a tenant may cause a minute, in one replica.
_A_MINUTE = 30
_TENANTS = 10_000

_log = logger(__name__)


class Refusals:
    """Notes refusals."""

    def __init__(self, log: AuditLog, now: Callable[[], float] = time.monotonic) -> None:
        self._audit = log
        self._now = now
        self._spent: OrderedDict[UUID, tuple[float, int]] = OrderedDict()

    @asynccontextmanager
    async def noted(self, caller: Caller, action: Action, target: object) -> AsyncIterator[None]:
        """Records it when the block is refused to the caller, and lets the refusal pass."""
        try:
            yield
        except PermissionDenied as refusal:
            if self._may_note(caller.tenant_id):
                try:
                    await self._audit.refuse(caller, action, target, refusal.reason)
                except HermaError as error:
                    _log.error("a refusal was not recorded", action=action.label, reason=error.reason)
            raise

    def _may_note(self, tenant_id: UUID) -> bool:
        began, count = self._spent.pop(tenant_id, (self._now(), 0))
        if self._now() - began >= 60:
            began, count = self._now(), 0
        self._spent[tenant_id] = (began, count + 1)
        if len(self._spent) > _TENANTS:
            self._spent.popitem(last=False)
        return count < _A_MINUTE
