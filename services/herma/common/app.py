"""How a service process lives: start, be ready, drain on a signal, stop.

SIGTERM or SIGINT starts the drain; the service hands over its work and returns.  A second signal, or
the end of the grace period, cancels what is left.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable

import uvloop

from herma.common.errors import HermaError
from herma.common.logs import configure_logs, logger
from herma.common.settings import TelemetrySettings
from herma.common.telemetry import Telemetry

# Containers that may be made before the young ones are looked through.
_YOUNG_OBJECTS = 10_000


class Lifecycle:
    """The signals of one process, as its service sees them."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """A stop was asked for."""
        return self._stopping.is_set()

    async def stopping(self) -> None:
        """Waits until a stop is asked for."""
        await self._stopping.wait()

    def stop(self) -> None:
        """Asks for a stop."""
        self._stopping.set()


Serve = Callable[[Lifecycle], Awaitable[None]]


def run(name: str, telemetry: TelemetrySettings, serve: Serve, *, grace: float) -> None:
    """Runs a service until it returns; exits with status 1 if it fails.

    Args:
        name: Service name for logs and telemetry.
        telemetry: Where those go.
        serve: Starts, waits for `Lifecycle.stopping`, drains, returns.
        grace: Seconds that the drain may take before it is cancelled.
    """
    configure_logs(name, telemetry.log_level)
    _calm_collector()
    with Telemetry(name, telemetry):
        try:
            uvloop.run(_run(name, serve, grace))
        except HermaError as error:
            logger(__name__).error("the service cannot run", reason=error.reason, error=error.message)
            sys.exit(1)


def _calm_collector() -> None:
    """Keeps the cyclic garbage collector from walking what was imported, over and over.

    Modules and classes live as long as the process; a full collection that visits them all stops the
    loop for tens of milliseconds.  What requests leave behind is freed by reference counts, cycles of
    theirs by young collections, which come less often from here on.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)


async def _run(name: str, serve: Serve, grace: float) -> None:
    log = logger(__name__)
    loop = asyncio.get_running_loop()
    lifecycle = Lifecycle()
    task = asyncio.ensure_future(serve(lifecycle))

    def on_signal() -> None:
        if lifecycle.is_stopping:
            task.cancel()
            return
        log.info("stopping", service_name=name)
        lifecycle.stop()
        loop.call_later(grace, task.cancel)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        await task
    except asyncio.CancelledError:
        if not lifecycle.is_stopping:
            raise
        log.warning("the drain did not end in time", service_name=name)
