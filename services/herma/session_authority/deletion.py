"""Deletes a session decently: a running turn is asked to stop, so that its runner closes the model's
connection and kills its command, and is cut off if it does not."""

from __future__ import annotations

import asyncio
from uuid import UUID

from herma.session_authority.bells import Belfry
from herma.session_authority.domain.model import Caller
from herma.session_authority.store.deletions import DeletionStore

# A lost ring costs no more than this.
_POLL_SECONDS = 0.5


class Deletions:
    """Deletes sessions.

    Args:
        patience: Seconds that a running turn gets to stop by itself.
    """

    def __init__(self, store: DeletionStore, belfry: Belfry, patience: float = 3.0) -> None:
        self._store = store
        self._belfry = belfry
        self._patience = patience

    async def delete(self, caller: Caller, session_id: UUID, only: UUID | None = None) -> None:
        """Ends what is under way and removes the session.  Harmless when repeated.

        Args:
            only: If given, the only turn that the session may hold.

        Raises:
            NotFound: when the session is not the caller's.
            SessionGoesOn: when it holds another turn than `only`.
        """
        with self._belfry.session(session_id) as bell:
            if await self._store.stop(caller, session_id, only):
                self._belfry.ring_signals()
                self._belfry.ring_session(session_id)
                try:
                    async with asyncio.timeout(self._patience):
                        ticket = bell.ticket()
                        while await self._store.is_leased(caller, session_id):
                            await bell.wait(ticket, _POLL_SECONDS)
                            ticket = bell.ticket()
                except TimeoutError:
                    pass  # its runner finds that the lease is lost
        await self._store.delete(caller, session_id, only)
        self._belfry.ring_session(session_id)
