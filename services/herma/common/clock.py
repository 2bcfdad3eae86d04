"""Time as a dependency, so that tests can hold it in their hands."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a process may ask about time.  Leases of the ledger use the database's clock instead."""

    def now(self) -> datetime:
        """Wall clock, UTC, aware."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Wall clock, UTC, aware."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()
