"""What becomes of sandboxes when tool-sandbox stops for good: they are removed, since nobody would.

Only for deployments that say so: elsewhere sandboxes outlive the service and are found again.  Workspaces
always stay.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from herma.common.errors import HermaError
from herma.common.logs import logger
from herma.tool_sandbox.domain.model import Engine

_log = logger(__name__)

# Removals at a time.
_LANES = 8


async def retire(engine: Engine, sockets: Path, kept: frozenset[str]) -> int:
    """Removes this deployment's sandboxes and their socket folders, but for those kept; how many.

    Best effort: what cannot be removed is logged, and is left to the next start's sweep.

    Args:
        sockets: Folder with one folder per sandbox, those of sandboxes long gone among them.
        kept: Ids of sandboxes.
    """
    try:
        found = [entry.sandbox_id for entry in await engine.objects()]
    except HermaError as error:
        _log.warning("sandboxes were left behind", reason=error.reason)
        return 0
    lanes = asyncio.Semaphore(_LANES)

    async def remove(sandbox_id: str) -> bool:
        async with lanes:
            try:
                await engine.remove(sandbox_id)
            except HermaError as error:
                _log.warning("a sandbox was left behind", sandbox_id=sandbox_id, reason=error.reason)
                return False
        return True

    wanted = [entry for entry in found if entry not in kept]
    removed = await asyncio.gather(*(remove(entry) for entry in wanted))
    left = {entry for entry, gone in zip(wanted, removed, strict=True) if not gone}
    await asyncio.to_thread(_clear, sockets, kept | left)
    return sum(removed)


def _clear(sockets: Path, kept: frozenset[str]) -> None:
    for folder in sockets.iterdir():
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)
