"""Commands by call id: each started once, its outcome kept until the turn ends.

A call id whose outcome was forgotten is refused from then on: it is neither started again nor said to
have never been seen.

The fence: a request with an epoch lower than the highest seen is refused.  Attaching raises it first,
so "never seen" is final: no older runner can start that call any more.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from herma.sandboxd.output import OutputWindow
from herma.sandboxd.pipe import read_all
from herma.sandboxd.process_tree import expose_to_oom, kill_descendants, signal_group
from herma.sandboxd.reaper import Reaper
from herma.sandboxd.workspace import Workspace

DEFAULT_LIMIT = 100_000
MAX_LIMIT = 1_000_000
# From SIGTERM to SIGKILL.
_TERM_SECONDS = 2.0
# How long output may go on after the shell ended, from children that keep the pipe open.
_LINGER_SECONDS = 0.5
_QUEUE = 256
_SHELL = ("/bin/bash", "-c")
# Call ids of ended turns that are remembered.
_REMEMBERED = 20_000


class Fenced(Exception):
    """A newer holder of the session has been here."""


class Forgotten(Exception):
    """The call was started, and its turn has ended since."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended.  Times are Unix nanoseconds."""

    exit_code: int
    signal: int
    timed_out: bool
    head: bytes
    tail: bytes
    total: int
    spill_path: bytes
    pid: int
    started: int
    ended: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Live output."""

    data: bytes
    is_stderr: bool


@dataclass(slots=True, eq=False)
class Command:
    """One command, running or done."""

    call_id: str
    pid: int
    started: int
    output: OutputWindow
    done: asyncio.Future[Exit]
    timed_out: bool = False
    listeners: set[asyncio.Queue[Piece | None]] = field(default_factory=set)

    def hear(self, piece: Piece) -> None:
        """Takes what was read.  A slow listener misses live output; the outcome has it."""
        self.output.add(piece.data)
        for queue in self.listeners:
            if not queue.full():
                queue.put_nowait(piece)

    @contextmanager
    def listening(self) -> Iterator[asyncio.Queue[Piece | None]]:
        """Live output from this very moment on, then None: `done` has the outcome."""
        queue: asyncio.Queue[Piece | None] = asyncio.Queue(_QUEUE)

        def end(_done: asyncio.Future[Exit]) -> None:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

        self.listeners.add(queue)
        self.done.add_done_callback(end)
        try:
            yield queue
        finally:
            self.listeners.discard(queue)
            self.done.remove_done_callback(end)

    def kill(self, number: int) -> None:
        """Signals the command's whole process group."""
        if not self.done.done():
            signal_group(self.pid, number)


class CommandTable:
    """All commands of this sandbox."""

    def __init__(
        self, workspace: Workspace, reaper: Reaper, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._workspace = workspace
        self._reaper = reaper
        self._clock = clock
        self._commands: dict[str, Command] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._forgotten: OrderedDict[str, None] = OrderedDict()
        self._fence = 0

    def pass_fence(self, epoch: int) -> None:
        """Raises the fence to `epoch`.

        Raises:
            Fenced: when it is higher already.
        """
        if epoch < self._fence:
            raise Fenced
        self._fence = epoch

    def get(self, call_id: str) -> Command | None:
        """The command of a call id, if it was ever started.

        Raises:
            Forgotten: when its outcome is no longer kept.
        """
        if call_id in self._forgotten:
            raise Forgotten
        return self._commands.get(call_id)

    def start(
        self,
        call_id: str,
        command: str,
        directory: bytes,
        environment: Mapping[str, str],
        timeout: float,
        limit: int,
    ) -> Command:
        """Starts a command, or answers the one that the call id has started before.

        Raises:
            Forgotten: as `get`.
            PathRefused, FileMissing: for a folder that cannot be started in.
            OSError: when no process can be made.
        """
        known = self.get(call_id)
        if known is not None:
            return known
        folder = self._workspace.folder_path(directory)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        started = self._clock()
        try:
            process = subprocess.Popen(
                [*_SHELL, command],
                cwd=folder,
                env={**self._base_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=out_write,
                stderr=err_write,
                start_new_session=True,
            )
        except BaseException:
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            os.close(out_write)
            os.close(err_write)
        expose_to_oom(process.pid)
        status = self._reaper.expect(process.pid)
        process.returncode = 0  # the reaper waits for it, not Popen
        loop = asyncio.get_running_loop()
        running = Command(
            call_id,
            process.pid,
            started,
            OutputWindow(limit, lambda: self._open_spill(call_id)),
            loop.create_future(),
        )
        self._commands[call_id] = running
        task = loop.create_task(self._see_through(running, status, out_read, err_read, timeout))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return running

    def end_turn(self, epoch: int) -> int:
        """Kills what is still running and forgets all outcomes; how many processes were killed."""
        self.pass_fence(epoch)
        self._forgotten.update(dict.fromkeys(self._commands))
        self._commands.clear()
        while len(self._forgotten) > _REMEMBERED:
            self._forgotten.popitem(last=False)
        return kill_descendants()

    async def _see_through(
        self,
        command: Command,
        status: asyncio.Future[int],
        out_read: int,
        err_read: int,
        timeout: float,
    ) -> None:
        readers = [
            asyncio.ensure_future(read_all(out_read, lambda data: command.hear(Piece(data, False)))),
            asyncio.ensure_future(read_all(err_read, lambda data: command.hear(Piece(data, True)))),
        ]
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(status)
        except TimeoutError:
            command.timed_out = True
            command.kill(signal.SIGTERM)
            try:
                async with asyncio.timeout(_TERM_SECONDS):
                    await asyncio.shield(status)
            except TimeoutError:
                pass
            command.kill(signal.SIGKILL)
        code = await status
        ended = self._clock()
        await asyncio.wait(readers, timeout=_LINGER_SECONDS)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        command.output.close()
        command.done.set_result(
            Exit(
                exit_code=os.WEXITSTATUS(code) if os.WIFEXITED(code) else -1,
                signal=os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0,
                timed_out=command.timed_out,
                head=command.output.head,
                tail=command.output.tail,
                total=command.output.total,
                spill_path=command.output.spill_path,
                pid=command.pid,
                started=command.started,
                ended=ended,
            )
        )

    def _open_spill(self, call_id: str) -> tuple[int, bytes]:
        path = b".herma/output/" + call_id.encode() + b".log"
        return self._workspace.create_exclusively(path), path

    def _base_environment(self) -> dict[str, str]:
        home = os.fsdecode(self._workspace.top)
        return {
            "HOME": home,
            "LANG": "C.UTF-8",
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "TERM": "dumb",
            "TMPDIR": "/tmp",  # noqa: S108  # the sandbox's own
            "USER": "agent",
        }
