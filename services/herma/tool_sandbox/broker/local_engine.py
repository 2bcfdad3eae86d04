"""Sandboxes as plain processes: for trusted development on one machine only, no isolation.

The processes die with the broker; the workspaces, plain folders, stay.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from herma.common.errors import SandboxUnavailable
from herma.tool_sandbox.domain.model import SandboxObject


@dataclass(slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    object_id: str


class LocalEngine:
    """One deployment's processes.

    Args:
        sockets: Folder with one folder per sandbox.
        workspaces: Folder that holds the workspaces.
    """

    name = "local"

    def __init__(self, sockets: Path, workspaces: Path) -> None:
        self._sockets = sockets
        self._workspaces = workspaces
        self._running: dict[str, _Running] = {}
        self._lock = asyncio.Lock()

    async def create(self, sandbox_id: str, workspace_id: str) -> SandboxObject:
        """See `Engine`."""
        async with self._lock:
            found = await self.inspect(sandbox_id)
            if found is not None and found.running:
                return found
            workspace = self._workspaces / workspace_id
            workspace.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                # Not by a fork of asyncio's or with `preexec_fn`: those run gRPC's fork handlers in the
                # child, which break it.
                process = subprocess.Popen(  # noqa: ASYNC220  # returns once it is spawned
                    [sys.executable, "-m", "herma.sandboxd"],
                    cwd=workspace,
                    env={
                        "HERMA_SANDBOXD_SOCKET": str(self._sockets / sandbox_id / "sandboxd.sock"),
                        "HERMA_SANDBOXD_WORKSPACE": str(workspace),
                        "HERMA_SANDBOXD_PARENT": str(os.getpid()),
                        "PATH": os.environ.get("PATH", os.defpath),
                    },
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxUnavailable("sandboxd cannot be started", retry_after=2) from error
            self._running[sandbox_id] = _Running(process, f"{process.pid}-{os.urandom(6).hex()}")
        started = await self.inspect(sandbox_id)
        assert started is not None
        return started

    async def inspect(self, sandbox_id: str) -> SandboxObject | None:
        """See `Engine`."""
        entry = self._running.get(sandbox_id)
        if entry is None:
            return None
        running = entry.process.poll() is None
        pid = entry.process.pid if running else 0
        return SandboxObject(sandbox_id, entry.object_id, running, pid, os.getuid())

    async def remove(self, sandbox_id: str) -> None:
        """See `Engine`."""
        entry = self._running.pop(sandbox_id, None)
        if entry is not None:
            await _stop(entry.process)

    async def objects(self) -> list[SandboxObject]:
        """See `Engine`."""
        found = [await self.inspect(sandbox_id) for sandbox_id in list(self._running)]
        return [entry for entry in found if entry is not None]

    async def problem(self) -> str:
        """Always empty: processes can be made."""
        return ""

    async def close(self) -> None:
        """Stops all processes; the next start of a session's sandbox finds its files again."""
        entries, self._running = list(self._running.values()), {}
        await asyncio.gather(*(_stop(entry.process) for entry in entries))


async def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()  # sandboxd kills what runs below it
    try:
        await asyncio.to_thread(process.wait, 3)
    except subprocess.TimeoutExpired:
        process.kill()
        await asyncio.to_thread(process.wait)
