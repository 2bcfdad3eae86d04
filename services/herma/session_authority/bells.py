"""Wakes those who wait: in this process at once, in other replicas through NOTIFY.

Only a hint: every waiter also polls slowly, so a lost ring costs time and never correctness.  Rings
are coalesced on the leading edge: the first goes out at once, those that come while it is under way
go out together.  Payloads name the replica, which does not listen to itself, and the session; never
tenant data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

from herma.common.errors import HermaError
from herma.common.logs import logger
from herma.common.postgres import Database

_log = logger(__name__)

WORK = "herma_work"
SESSION = "herma_session"
SIGNAL = "herma_signal"
CHANNELS = (WORK, SESSION, SIGNAL)


class Bell:
    """Something that rings; a waiter never misses a ring that came after it asked for a ticket."""

    def __init__(self) -> None:
        self._rings = 0
        # In the order in which they came.
        self._waiters: dict[asyncio.Future[None], None] = {}

    def ticket(self) -> int:
        """How often it has rung: take it before looking, give it to `wait` after."""
        return self._rings

    def ring(self) -> None:
        """Wakes all waiters."""
        self._rings += 1
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def ring_one(self) -> None:
        """Wakes the waiter that has waited longest: there is something for one of them."""
        self._rings += 1
        while self._waiters:
            waiter = next(iter(self._waiters))
            del self._waiters[waiter]
            if not waiter.done():
                waiter.set_result(None)
                return

    async def wait(self, ticket: int, timeout: float) -> None:
        """Returns once it has rung since the ticket, or after the timeout."""
        if self._rings != ticket:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiters.pop(waiter, None)


class SessionBell:
    """The bell of one session, kept in the belfry while somebody listens."""

    def __init__(self, bell: Bell, leave: Callable[[], None]) -> None:
        self.bell = bell
        self._leave = leave

    def __enter__(self) -> Bell:
        return self.bell

    def __exit__(self, *_exception: object) -> None:
        self._leave()


class Belfry:
    """All bells of one replica, and their link to the others.

    Args:
        replica: Names this replica among those of its database; no spaces.
    """

    def __init__(self, database: Database, replica: str) -> None:
        self._database = database
        self._replica = replica
        self.work = Bell()
        self.signals = Bell()
        self._sessions: dict[UUID, tuple[Bell, int]] = {}
        self._out: set[tuple[str, str]] = set()
        self._some = asyncio.Event()

    def session(self, session_id: UUID) -> SessionBell:
        """The bell of a session, for the length of a `with` block."""
        bell, listeners = self._sessions.get(session_id, (Bell(), 0))
        self._sessions[session_id] = (bell, listeners + 1)
        return SessionBell(bell, lambda: self._leave(session_id))

    def _leave(self, session_id: UUID) -> None:
        bell, listeners = self._sessions[session_id]
        if listeners == 1:
            del self._sessions[session_id]
        else:
            self._sessions[session_id] = (bell, listeners - 1)

    def ring_work(self) -> None:
        """One more turn is claimable."""
        self.work.ring_one()
        self._send(WORK)

    def ring_signals(self) -> None:
        """A leased turn may have been asked to stop."""
        self.signals.ring()
        self._send(SIGNAL)

    def ring_session(self, session_id: UUID) -> None:
        """A session has new events or streamed text."""
        self._ring_listeners(session_id)
        self._send(SESSION, str(session_id))

    def ring_all(self) -> None:
        """Anything may have changed."""
        self.work.ring()
        self.signals.ring()
        for bell, _ in list(self._sessions.values()):
            bell.ring()

    def heard(self, channel: str, payload: str) -> None:
        """What another replica sent; an empty payload means that some of it was missed."""
        sender, _, session = payload.partition(" ")
        if not sender:
            self.ring_all()
        elif sender == self._replica:
            return
        elif channel == WORK:
            self.work.ring_one()
        elif channel == SIGNAL:
            self.signals.ring()
        else:
            self._ring_listeners(UUID(session))

    def _ring_listeners(self, session_id: UUID) -> None:
        entry = self._sessions.get(session_id)
        if entry is not None:
            entry[0].ring()

    def _send(self, channel: str, session: str = "") -> None:
        self._out.add((channel, f"{self._replica} {session}"))
        self._some.set()

    async def run(self) -> None:
        """Passes rings on to other replicas until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            batch, self._out = self._out, set()
            try:
                await self._database.notify(batch)
            except HermaError as error:
                _log.warning("a notification was lost", reason=error.reason)
