"""Turns."""

from __future__ import annotations

from fastapi import APIRouter

from herma.gateway.bodies import TurnBody
from herma.gateway.routes.parts import REFUSALS, Agent, Reader, TheAuthority, known_id
from herma.gateway.wire import turn_body

router = APIRouter(prefix="/v1/turns", tags=["turns"], responses=REFUSALS)


@router.get("/{turn_id}")
async def get_turn(turn_id: str, visitor: Reader, authority: TheAuthority) -> TurnBody:
    """Reads a turn with its calls."""
    return turn_body(await authority.get_turn(visitor.caller, known_id(turn_id, "turn")))


@router.post("/{turn_id}/interrupt")
async def interrupt_turn(turn_id: str, visitor: Agent, authority: TheAuthority) -> TurnBody:
    """Asks a running turn to stop, or cancels a queued one.  Harmless when repeated."""
    return turn_body(await authority.interrupt_turn(visitor.caller, known_id(turn_id, "turn")))
