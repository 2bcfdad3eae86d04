"""Keeps child processes running: restarts those that die, stops all in reverse order.

Children die with the supervisor, however it dies (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from herma.common.errors import Unavailable
from herma.common.logs import logger
from herma.local.processes import dies_with_parent

_log = logger(__name__)

_MAX_PAUSE = 5.0
_HEALTHY_SECONDS = 30.0
_LOG_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Program:
    """What to run.

    `ready` says whether it serves; `before` runs before each start; `stop` asks it to stop and `orphaned`
    is what it gets when the supervisor dies.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    ready: Callable[[], Awaitable[bool]]
    address: str = ""
    before: Callable[[], None] | None = None
    stop: signal.Signals = signal.SIGTERM
    orphaned: signal.Signals = signal.SIGTERM


@dataclass(slots=True, eq=False)
class Child:
    """A program that is kept running."""

    program: Program
    pid: int = 0
    stopping: bool = False
    restarts: int = 0
    _process: asyncio.subprocess.Process | None = field(default=None)
    _task: asyncio.Task[None] | None = field(default=None)

    def start(self, on_change: Callable[[], None]) -> None:
        """Starts it and keeps it running."""
        self._task = asyncio.create_task(self._keep(on_change))

    async def wait_ready(self, seconds: float) -> None:
        """Waits until it serves.

        Raises:
            Unavailable: when it does not in time; names its log.
        """
        until = time.monotonic() + seconds
        while not (self.pid and await self.program.ready()):
            if time.monotonic() >= until or self.restarts > 3:
                raise Unavailable(f"{self.program.name} does not start; see {self.program.log}")
            await asyncio.sleep(0.03)

    async def stop(self, seconds: float) -> None:
        """Asks it to stop, and kills it when it does not in time."""
        self.stopping = True
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(self.program.stop)
        if self._task is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._task)
        except TimeoutError:
            if self._process is not None and self._process.returncode is None:
                _log.warning("killed", program=self.program.name)
                self._process.kill()
            await self._task

    async def _keep(self, on_change: Callable[[], None]) -> None:
        pause = 0.0
        while True:
            began = time.monotonic()
            try:
                code = await self._run(on_change)
            except (OSError, Unavailable) as error:
                _log.warning("cannot start", program=self.program.name, error=str(error))
                code = -1
            self.pid = 0
            if self.stopping:
                return
            self.restarts += 1
            if time.monotonic() - began > _HEALTHY_SECONDS:
                pause, self.restarts = 0.0, 0
            _log.warning("restarting", program=self.program.name, exit_code=code)
            await asyncio.sleep(pause)
            pause = min(max(0.1, pause * 2), _MAX_PAUSE)

    async def _run(self, on_change: Callable[[], None]) -> int:
        program = self.program
        if program.before is not None:
            await asyncio.to_thread(program.before)
        if program.log.exists() and program.log.stat().st_size > _LOG_LIMIT:
            program.log.replace(program.log.with_name(program.log.name + ".1"))
        with program.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *program.argv,
                env=dict(program.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in a terminal goes to the supervisor alone, which stops them in order.
                start_new_session=True,
                preexec_fn=dies_with_parent(program.orphaned),
            )
        self.pid = self._process.pid
        on_change()
        if self.stopping:
            self._process.send_signal(program.stop)
        return await self._process.wait()


class Supervisor:
    """Children in the order of their dependencies."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._groups: list[list[Child]] = []

    @property
    def children(self) -> list[Child]:
        """All children, dependencies first."""
        return [child for group in self._groups for child in group]

    async def start(self, programs: Sequence[Program], seconds: float = 60.0) -> None:
        """Starts programs that do not depend on one another, and waits until they serve.

        Raises:
            Unavailable: when one does not start.
        """
        group = [Child(program) for program in programs]
        self._groups.append(group)
        for child in group:
            child.start(self._on_change)
        await asyncio.gather(*(child.wait_ready(seconds) for child in group))

    async def drain(self, seconds: float = 30.0) -> None:
        """Stops all, those that depend on others first."""
        for group in reversed(self._groups):
            await asyncio.gather(*(child.stop(seconds) for child in group))


def base_environment() -> dict[str, str]:
    """What every child needs of this process's environment, and nothing else."""
    return {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR")
        if name in os.environ
    }
