"""Commands by call id: each started once, its outcome kept until the turn ends.

The fence: a request with an epoch lower than the highest seen is refused.  Attaching raises it first,
so "never seen" is final: no older runner can start that call any more.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from herma.sandboxd.output import OutputWindow
from herma.sandboxd.reaper import Reaper
from herma.sandboxd.workspace import Workspace

DEFAULT_LIMIT = 100_000
MAX_LIMIT = 1_000_000
# From SIGTERM to SIGKILL.
_TERM_SECONDS = 2.0
# How long output may go on after the shell ended, from children that keep the pipe open.
_LINGER_SECONDS = 0.5
_QUEUE = 256


class Fenced(Exception):
    """A newer holder of the session has been here."""


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

    async def follow(self) -> AsyncIterator[Piece | Exit]:
        """Live output from now on, then the exit."""
        queue: asyncio.Queue[Piece | None] = asyncio.Queue(_QUEUE)
        self.listeners.add(queue)
        try:
            if not self.done.done():
                self.done.add_done_callback(lambda _done: _put_end(queue))
                while (piece := await queue.get()) is not None:
                    yield piece
            yield self.done.result()
        finally:
            self.listeners.discard(queue)

    def kill(self, number: int) -> None:
        """Signals the command's whole process group."""
        if not self.done.done():
            _kill_group(self.pid, number)


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
        """The command of a call id, if it was ever started."""
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
            PathRefused, FileMissing: for a folder that cannot be started in.
            OSError: when no process can be made.
        """
        known = self._commands.get(call_id)
        if known is not None:
            return known
        folder = self._workspace.folder_path(directory)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        started = self._clock()
        try:
            process = subprocess.Popen(
                ["/bin/bash", "-c", command],
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
        for command in self._commands.values():
            command.kill(signal.SIGKILL)
        self._commands = {
            call_id: command for call_id, command in self._commands.items() if not command.done.done()
        }
        for command in self._commands.values():
            command.done.add_done_callback(partial(self._forget, command.call_id))
        return kill_descendants()

    def _forget(self, call_id: str, _done: asyncio.Future[Exit]) -> None:
        self._commands.pop(call_id, None)

    async def _see_through(
        self,
        command: Command,
        status: asyncio.Future[int],
        out_read: int,
        err_read: int,
        timeout: float,
    ) -> None:
        readers = [
            asyncio.ensure_future(_read_all(out_read, lambda data: command.hear(Piece(data, False)))),
            asyncio.ensure_future(_read_all(err_read, lambda data: command.hear(Piece(data, True)))),
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


def kill_descendants() -> int:
    """Kills every process below this one; how many there were."""
    killed = 0
    for _ in range(3):  # a fork may slip through a pass
        victims = _descendants(os.getpid())
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        if not victims:
            break
    return killed


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] != b"Z":
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.extend(below)
        waiting.extend(below)
    return found


async def _read_all(descriptor: int, hear: Callable[[bytes], None]) -> None:
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        while True:
            try:
                data = os.read(descriptor, 65_536)
            except BlockingIOError:
                readable.clear()
                await readable.wait()
                continue
            if not data:
                return
            hear(data)
            await asyncio.sleep(0)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _put_end(queue: asyncio.Queue[Piece | None]) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(None)


def _kill_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
