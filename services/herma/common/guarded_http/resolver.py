"""Names become addresses.

Invariant: what others let us look up, however slow their name servers are, holds up no other work of the
process: look-ups have threads of their own, and only so many.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from herma.common.guarded_http.addresses import Address

_SECONDS: Final = 5.0
_MOST_LOOKUPS: Final = 64

Lookup = Callable[[str], Sequence[Address]]


class Resolver(Protocol):
    """Looks names up."""

    async def addresses(self, host: str) -> Sequence[Address]:
        """All addresses of a name.

        Raises:
            socket.gaierror: when there is none (`EAI_NONAME` and its like), or when it cannot be told now
                (`EAI_AGAIN`).
            TimeoutError: when nobody answers in time.
        """


def system_addresses(host: str) -> Sequence[Address]:
    """As the machine resolves a name (`getaddrinfo(3)`); blocks."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    # A link-local answer may come with a zone; without it, it is judged all the same.
    texts = [str(entry[4][0]).partition("%")[0] for entry in found]
    return [ipaddress.ip_address(text) for text in dict.fromkeys(texts)]


class SystemResolver:
    """The machine's own.

    A look-up cannot be stopped.  In an event loop's own pool (four threads in uvloop, six on two
    processors in asyncio) a few names of a silent server would stall all that the process does there, and
    an executor's threads would be waited for when the process ends.

    Args:
        seconds: How long one waits for an answer.
        most: Look-ups that run at a time, those included that nobody waits for any more.
    """

    def __init__(
        self, seconds: float = _SECONDS, most: int = _MOST_LOOKUPS, look_up: Lookup = system_addresses
    ) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(most)
        self._look_up = look_up
        self._running: dict[str, asyncio.Future[Sequence[Address]]] = {}

    async def addresses(self, host: str) -> Sequence[Address]:
        """As `Resolver.addresses`; who asks for a name that is being looked up gets the same answer."""
        async with asyncio.timeout(self._seconds):
            running = self._running.get(host) or await self._begun(host)
            # Others may wait for it too.
            return await asyncio.shield(running)

    async def _begun(self, host: str) -> asyncio.Future[Sequence[Address]]:
        await self._slots.acquire()
        begun: asyncio.Future[Sequence[Address]] = asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=self._run, args=(host, begun), name="look-up", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._slots.release()
            raise socket.gaierror(socket.EAI_AGAIN, "no thread can be started") from error
        self._running[host] = begun
        return begun

    def _run(self, host: str, begun: asyncio.Future[Sequence[Address]]) -> None:
        found: Sequence[Address] | Exception
        try:
            found = self._look_up(host)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is who asked that must know
            found = error
        try:
            begun.get_loop().call_soon_threadsafe(self._end, host, begun, found)
        except RuntimeError:
            # The loop is closed: nobody waits.
            return

    def _end(self, host: str, begun: asyncio.Future[Any], found: Sequence[Address] | Exception) -> None:
        self._slots.release()
        if self._running.get(host) is begun:
            del self._running[host]
        if isinstance(found, Exception):
            begun.set_exception(found)
            # It is no news when nobody waits.
            begun.exception()
        else:
            begun.set_result(found)
