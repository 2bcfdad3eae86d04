"""What child processes need from the kernel."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def dies_with_parent(number: int) -> Callable[[], None]:
    """For `preexec_fn`: the child gets this signal when its parent dies, however it dies."""
    libc = ctypes.CDLL(None)

    def set_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number)

    return set_signal


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when there is none.

    With the pid it names a process for good: a pid alone may be another's by now.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] == b"Z" else int(fields[19])


def is_alive(pid: int, started: int) -> bool:
    """Whether this very process still runs."""
    return pid > 0 and pid != os.getpid() and start_time(pid) == started
