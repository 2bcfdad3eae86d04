"""What processes use: memory shared out fairly (PSS), and processor time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil


def pss_megabytes(pids: Iterable[int]) -> float:
    """The proportional set size of processes: a page that n share counts 1/n in each (proc(5))."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def processor_seconds(pid: int) -> float:
    """User and system time of a process and of its children, the ended ones included."""
    process = psutil.Process(pid)
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        if one is process:
            total += times.children_user + times.children_system
    return total
