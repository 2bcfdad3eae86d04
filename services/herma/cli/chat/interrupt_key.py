"""Ctrl-C while a turn runs: once asks the turn to stop, twice within two seconds leaves."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_TWICE_WITHIN = 2.0


class InterruptKey:
    """Owns SIGINT while it is entered.

    The handler does not raise at the first press, so that the stream that is being read goes on and the
    turn's end is seen.

    Args:
        once: Called at the first press, in the signal handler: it must be short.

    Raises:
        KeyboardInterrupt: at the second press.
    """

    def __init__(self, once: Callable[[], None], now: Callable[[], float] = time.monotonic) -> None:
        self._once = once
        self._now = now
        self._pressed: float | None = None
        self._before: Any = None

    def __enter__(self) -> InterruptKey:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        pressed, self._pressed = self._pressed, self._now()
        if pressed is not None and self._pressed - pressed <= _TWICE_WITHIN:
            raise KeyboardInterrupt
        self._once()
