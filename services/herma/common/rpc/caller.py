"""Who calls: the service and the turn token of the RPC that is being served."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from herma.common.errors import Unauthenticated


@dataclass(frozen=True, slots=True)
class CallingService:
    """Set by the server before a handler runs."""

    # Name of the calling service, proved by its key.
    service: str
    # The turn token that came along, unverified; empty without one.
    turn_token: str


_CURRENT: ContextVar[CallingService] = ContextVar("herma_calling_service")


def set_caller(caller: CallingService) -> None:
    """Records the caller for the RPC that this task serves."""
    _CURRENT.set(caller)


def current_caller() -> CallingService:
    """The caller of the RPC that this task serves.

    Raises:
        Unauthenticated: outside of an RPC.
    """
    try:
        return _CURRENT.get()
    except LookupError as error:
        raise Unauthenticated("no service called") from error
