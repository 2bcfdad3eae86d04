"""Systems that do durable work on PostgreSQL too, measured beside Herma on the same server.

Each is a program of its own (`python -m tests.benchmarks.peers.NAME URL COUNT`) that prints its rate, so
that nothing of it lives in the process that measures Herma.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]


async def rate(module: str, url: str, count: int) -> float:
    """What a peer's program prints.

    Raises:
        RuntimeError: when it fails, with the end of what it said.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"tests.benchmarks.peers.{module}",
        url,
        str(count),
        cwd=_ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{module} failed: {err.decode('utf-8', 'replace')[-2000:]}")
    return float(out.decode().split()[-1])
