"""What runs below sandboxd: process groups, and all descendants, wherever they hid."""

from __future__ import annotations

import os
import signal
import time

_PASSES = 5
# How often, and with which pauses in seconds, a new child is tried that cannot be written to yet.
_EXPOSING_TRIES = 50
_EXPOSING_PAUSE = 0.0001


def signal_group(pid: int, number: int) -> None:
    """Signals the process group that `pid` leads; harmless when it is gone."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def expose_to_oom(pid: int) -> None:
    """When memory runs out, the kernel shall end this child, however small, before sandboxd.

    What the child starts inherits it.  Call it before the child can be reaped: the id is still its own.
    """
    for _ in range(_EXPOSING_TRIES):
        try:
            with open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
                file.write(b"500")
            return
        except PermissionError:
            # In the middle of its exec it is still as closed to others as sandboxd is.
            time.sleep(_EXPOSING_PAUSE)
        except OSError:  # it ended already, or there is no such file
            return


def kill_descendants() -> int:
    """Kills every process below this one; how many there were.

    As PID 1 in one stroke, which no fork can outrun; else pass by pass.
    """
    killed: set[int] = set()
    for _ in range(_PASSES):
        victims = _descendants(os.getpid())
        if not victims:
            break
        killed.update(victims)
        if os.getpid() == 1:
            _kill(-1)
            break
        for pid in victims:
            _kill(pid)
    return len(killed)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] != b"Z":
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.extend(below)
        waiting.extend(below)
    return found
