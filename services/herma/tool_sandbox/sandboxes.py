"""The live sandboxes of this process: made on demand, one per session, found again after a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc

from herma.api.sandboxd.v1 import sandboxd_pb2, sandboxd_pb2_grpc
from herma.common.errors import (
    HermaError,
    PermissionDenied,
    SandboxLost,
    SandboxUnavailable,
)
from herma.common.logs import logger
from herma.common.turn_token import TurnIdentity
from herma.tool_sandbox.domain.model import Engine, SandboxObject, SandboxRecord
from herma.tool_sandbox.link import DialTimeout, SandboxLink
from herma.tool_sandbox.live import LiveSandbox
from herma.tool_sandbox.store import SandboxStore
from herma.tool_sandbox.wire import error_of

_log = logger(__name__)

_DIAL_SECONDS = 15.0
# After so many failures to reach a running sandbox it is given up.
_PATIENCE = 2


@dataclass(slots=True)
class _Slot:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    live: LiveSandbox | None = None
    # Times in a row that the sandbox did not dial.
    failures: int = 0


class Sandboxes:
    """Sandboxes by session.

    Args:
        sockets: Folder with one folder per sandbox, mounted into it.
        private: Folder of this process alone.
        isolates: Whether the backend isolates; one that does not takes trusted turns only.
    """

    def __init__(
        self,
        store: SandboxStore,
        engine: Engine,
        sockets: Path,
        private: Path,
        *,
        isolates: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._engine = engine
        self._sockets = sockets
        self._private = private
        self._isolates = isolates
        self._now = now
        self._slots: dict[UUID, _Slot] = {}
        # Sandboxes that an earlier process left and nobody has used since: when they were first seen.
        self._inherited: dict[str, float] = {}

    async def acquire(self, identity: TurnIdentity) -> LiveSandbox:
        """The session's sandbox, ready, its fence at the token's epoch.

        Raises:
            LeaseLost: for a fenced-out runner.
            SandboxUnavailable: when it cannot be made now.
            PermissionDenied: for an untrusted turn on a backend that does not isolate.
        """
        if identity.trust != "trusted" and not self._isolates:
            raise PermissionDenied("the backend `local` takes no untrusted turns")
        slot = self._slots.setdefault(identity.session_id, _Slot())
        async with slot.lock:
            # Read under the lock: a turn that was settled meanwhile must not be settled again, which
            # would kill what it has started since.
            record = await self._store.raise_fence(identity)
            live = await self._ready(slot, record)
            if record.settled_turn_id != identity.turn_id:
                await self._settle(live, record, identity)
            live.used_at = self._now()
            return live

    async def end_turn(self, identity: TurnIdentity) -> None:
        """Kills what the turn left running and forgets its outcomes; makes no sandbox for that.

        Raises:
            LeaseLost, SandboxUnavailable: as `acquire`.
        """
        slot = self._slots.setdefault(identity.session_id, _Slot())
        async with slot.lock:
            record = await self._store.raise_fence(identity)
            if slot.live is None or slot.live.is_broken:
                found = await self._engine.inspect(str(record.id))
                if found is None or not found.running:
                    return
            live = await self._ready(slot, record)
            await self._settle(live, record, identity)
            live.traced.clear()
            live.used_at = self._now()

    async def _ready(self, slot: _Slot, record: SandboxRecord) -> LiveSandbox:
        live = slot.live
        if live is not None and (live.is_broken or not await self._answers(live)):
            await live.link.close()
            slot.live = live = None
        if live is None:
            try:
                slot.live = live = await self._bring_up(record)
            except DialTimeout:
                slot.failures += 1
                if slot.failures >= _PATIENCE:
                    _log.warning("giving up a sandbox that does not dial", sandbox_id=str(record.id))
                    await self._engine.remove(str(record.id))
                    slot.failures = 0
                raise
            slot.failures = 0
        return live

    async def _settle(self, live: LiveSandbox, record: SandboxRecord, identity: TurnIdentity) -> None:
        """Kills what older turns left running, before anything of this turn is started."""
        try:
            await live.stub.EndTurn(
                sandboxd_pb2.EndTurnRequest(epoch=identity.epoch), metadata=live.metadata, timeout=10
            )
        except grpc.aio.AioRpcError as failure:
            raise error_of(failure) from failure
        await self._store.settle(record, identity.turn_id)

    @asynccontextmanager
    async def use(self, identity: TurnIdentity, instance: str) -> AsyncIterator[LiveSandbox]:
        """The session's sandbox if it is still the named incarnation.

        Raises:
            SandboxLost: when it is another one.
            LeaseLost, SandboxUnavailable: as `acquire`.
        """
        live = await self.acquire(identity)
        if instance and live.instance != instance:
            raise SandboxLost()
        live.busy += 1
        try:
            yield live
        finally:
            live.busy -= 1
            live.used_at = self._now()

    async def _answers(self, live: LiveSandbox) -> bool:
        if live.busy or self._now() - live.used_at < 1.0:
            return True
        try:
            await live.stub.Hello(sandboxd_pb2.HelloRequest(secret=live.secret), timeout=3)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def _bring_up(self, record: SandboxRecord) -> LiveSandbox:
        sandbox_id = str(record.id)
        found = await self._engine.inspect(sandbox_id)
        secret, replaced = record.secret, False
        if found is None or not found.running:
            if record.instance:
                replaced = True
                secret = await self._store.renew_secret(record)
            if found is not None:
                await self._engine.remove(sandbox_id)
            found = None
        link = SandboxLink(self._sockets / sandbox_id, self._private)
        await link.open()
        try:
            if found is None:
                found = await self._engine.create(sandbox_id, str(record.workspace_id))
            live = await self._greet(record, link, found, secret, replaced)
            if live.instance != record.instance:
                await self._store.set_instance(record, live.instance)
            return live
        except BaseException:
            # A link that is left open would keep sandboxd from dialling the next one.
            await link.close()
            raise

    async def _greet(
        self,
        record: SandboxRecord,
        link: SandboxLink,
        found: SandboxObject,
        secret: str,
        replaced: bool,
    ) -> LiveSandbox:
        channel = await link.channel(found.pid, found.uid, _DIAL_SECONDS)
        stub: Any = sandboxd_pb2_grpc.SandboxdServiceStub(channel)
        try:
            hello = await stub.Hello(
                sandboxd_pb2.HelloRequest(secret=secret), timeout=10, wait_for_ready=True
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                # Not the sandboxd that we greeted: nothing that it says can be used.
                await self._engine.remove(str(record.id))
            raise SandboxUnavailable("the sandbox does not answer", retry_after=0.5) from error
        instance = f"{found.object_id[:24]}.{hello.boot_id[:32]}"
        return LiveSandbox(record, link, stub, secret, instance, replaced, used_at=self._now())

    async def sweep(self) -> int:
        """Removes engine objects of this deployment that no record knows; how many."""
        objects = await self._engine.objects()
        ids: dict[UUID, str] = {}
        orphans = []
        for found in objects:
            try:
                ids[UUID(found.sandbox_id)] = found.sandbox_id
            except ValueError:
                orphans.append(found.sandbox_id)
        known = await self._store.known(list(ids))
        orphans.extend(text for key, text in ids.items() if key not in known)
        for sandbox_id in orphans:
            _log.info("removing an orphan", sandbox_id=sandbox_id)
            await self._engine.remove(sandbox_id)
        return len(orphans)

    async def reap(self, idle_seconds: float) -> int:
        """Removes idle sandboxes, keeping their workspaces; how many."""
        reaped = 0
        for session_id, slot in list(self._slots.items()):
            if slot.lock.locked():
                continue
            async with slot.lock:
                live = slot.live
                if live is None:
                    self._slots.pop(session_id, None)
                elif not live.busy and self._now() - live.used_at >= idle_seconds:
                    await live.link.close()
                    slot.live = None
                    await self._engine.remove(str(live.record.id))
                    reaped += 1
        return reaped + await self._reap_inherited(idle_seconds)

    async def _reap_inherited(self, idle_seconds: float) -> int:
        left = {found.sandbox_id for found in await self._engine.objects()} - self._in_use()
        self._inherited = {
            sandbox_id: self._inherited.get(sandbox_id, self._now()) for sandbox_id in left
        }
        reaped = 0
        for sandbox_id, seen in list(self._inherited.items()):
            if self._now() - seen < idle_seconds or sandbox_id in self._in_use():
                continue
            if any(slot.lock.locked() for slot in self._slots.values()):
                break  # it may be on its way into use; the next round looks again
            await self._engine.remove(sandbox_id)
            reaped += 1
        return reaped

    def _in_use(self) -> set[str]:
        return {str(slot.live.record.id) for slot in self._slots.values() if slot.live is not None}

    def busy(self) -> frozenset[str]:
        """The sandboxes that a call is using now."""
        return frozenset(
            str(slot.live.record.id)
            for slot in self._slots.values()
            if slot.live is not None and slot.live.busy
        )

    async def tend(self, idle_seconds: float, every: float) -> None:
        """Sweeps and reaps until cancelled."""
        while True:
            try:
                await self.sweep()
                await self.reap(idle_seconds)
            except HermaError as error:
                _log.warning("sandboxes were not swept", reason=error.reason)
            except Exception:  # noqa: BLE001  # the next round tries again
                _log.exception("sandboxes were not swept")
            await asyncio.sleep(every)

    async def close(self) -> None:
        """Drops all connections; containers stay, and their sandboxd dials again."""
        for slot in self._slots.values():
            if slot.live is not None:
                await slot.live.link.close()
