"""What becomes of sandboxes when tool-sandbox stops for good: they are removed, since nobody would.

Only for deployments that say so: elsewhere sandboxes outlive the service and are found again.  Workspaces
always stay.
"""

from __future__ import annotations

import asyncio

from herma.common.errors import HermaError
from herma.common.logs import logger
from herma.tool_sandbox.domain.model import Engine

_log = logger(__name__)

# Removals at a time.
_LANES = 8


async def retire(engine: Engine, kept: frozenset[str]) -> int:
    """Removes this deployment's sandboxes but for those that are kept; how many.

    Best effort: what cannot be removed is logged, and is left to the next start's sweep.
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

    return sum(await asyncio.gather(*(remove(entry) for entry in found if entry not in kept)))
