"""Waits for children: the commands that were started here, and orphans that a PID 1 inherits."""

from __future__ import annotations

import asyncio
import os
import signal


class Reaper:
    """The only caller of `waitpid` in this process, so no exit status is ever lost or taken twice."""

    def __init__(self) -> None:
        self._known: dict[int, asyncio.Future[int]] = {}

    def start(self) -> None:
        """Listens for SIGCHLD."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def expect(self, pid: int) -> asyncio.Future[int]:
        """The wait status of a child; call it in the same step of the loop that started the child."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._known[pid] = future
        return future

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            future = self._known.pop(pid, None)
            if future is not None and not future.done():
                future.set_result(status)
