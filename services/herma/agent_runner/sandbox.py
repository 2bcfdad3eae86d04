"""tool-sandbox as the runner sees it: one session's workspace under one lease."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from herma.agent_runner.domain.tool import CommandOutcome, FileContent
from herma.api.sandbox.v1 import sandbox_pb2, sandbox_pb2_grpc
from herma.common.errors import DeadlineExceeded, Internal, SandboxUnavailable, Unavailable
from herma.common.rpc import Peer

_Result = TypeVar("_Result")

_CHUNK = 256 * 1024
# How long tool-sandbox or the engine may be away before a turn is told so.
_PATIENCE = 120.0


class SandboxClient:
    """Workspaces of any session; the turn token says which."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = sandbox_pb2_grpc.SandboxServiceStub(peer.channel)

    async def acquire(self, token: Callable[[], str]) -> SessionWorkspace:
        """Makes the session's sandbox ready.

        Raises:
            SandboxUnavailable: after two minutes of trying.
        """
        response = await _patiently(
            lambda: self._peer.call(
                self._stub.Acquire, sandbox_pb2.AcquireRequest(), timeout=30, turn_token=token()
            )
        )
        return SessionWorkspace(self._peer, self._stub, token, response.instance)

    async def end_turn(self, token: str) -> None:
        """The turn is over: what it left running may be killed."""
        await self._peer.call(
            self._stub.EndTurn, sandbox_pb2.EndTurnRequest(), timeout=10, turn_token=token
        )


class SessionWorkspace:
    """See `domain.tool.Workspace`."""

    def __init__(self, peer: Peer, stub: Any, token: Callable[[], str], instance: str) -> None:
        self._peer = peer
        self._stub = stub
        self._token = token
        self.instance = instance

    async def run_command(
        self, call_id: str, instance: str, command: str, directory: str, timeout: float, attach: bool
    ) -> CommandOutcome:
        """Runs the command once, whatever happens to the connection or to tool-sandbox meanwhile."""
        request = sandbox_pb2.ExecRequest(
            call_id=call_id,
            instance=instance,
            command=command,
            working_directory=os.fsencode(directory),
        )
        request.timeout.FromMilliseconds(int(timeout * 1000))
        join = sandbox_pb2.AttachRequest(call_id=call_id, instance=instance)
        until = time.monotonic() + timeout + _PATIENCE
        while True:
            try:
                outcome = None
                if attach:
                    outcome = await self._follow(self._stub.Attach, join, timeout + _PATIENCE)
                if outcome is None:
                    # New, or never seen with the fence up: it is started now.
                    outcome = await self._follow(self._stub.Exec, request, timeout + _PATIENCE)
                if outcome is None:
                    raise Internal("a command was started and never seen")
                return outcome
            except (Unavailable, DeadlineExceeded) as error:
                if time.monotonic() >= until:
                    raise SandboxUnavailable(error.message) from error
                attach = True
                await asyncio.sleep(min(error.retry_after or 0.2, 2.0))

    async def _follow(self, method: Any, request: Any, timeout: float) -> CommandOutcome | None:
        answers: AsyncIterator[Any] = self._peer.stream(
            method, request, timeout=timeout, turn_token=self._token()
        )
        async for answer in answers:
            kind = answer.event.WhichOneof("kind")
            if kind == "never_seen":
                return None
            if kind == "exited":
                return _outcome(answer.event.exited)
        raise Unavailable("the stream of a command ended early")

    async def kill(self, call_id: str) -> None:
        """Kills a command; harmless when it has ended."""
        await self._peer.call(
            self._stub.Kill,
            sandbox_pb2.KillRequest(call_id=call_id, instance=self.instance),
            timeout=5,
            turn_token=self._token(),
        )

    async def read_file(self, path: bytes, offset: int, limit: int) -> FileContent:
        """See `domain.tool.Workspace`."""
        return await _patiently(lambda: self._read_file(path, offset, limit))

    async def write_file(self, call_id: str, path: bytes, content: bytes) -> bool:
        """See `domain.tool.Workspace`."""
        return await _patiently(lambda: self._write_file(call_id, path, content))

    async def _read_file(self, path: bytes, offset: int, limit: int) -> FileContent:
        size, parts = 0, []
        async for part in self._peer.stream(
            self._stub.ReadFile,
            sandbox_pb2.ReadFileRequest(path=path, offset=offset, limit=limit),
            timeout=60,
            turn_token=self._token(),
        ):
            if part.WhichOneof("part") == "header":
                size = part.header.size
            else:
                parts.append(part.chunk)
        return FileContent(b"".join(parts)[:limit], size)

    async def _write_file(self, call_id: str, path: bytes, content: bytes) -> bool:
        async def parts() -> AsyncIterator[sandbox_pb2.WriteFileRequest]:
            yield sandbox_pb2.WriteFileRequest(
                header=sandbox_pb2.WriteFileHeader(
                    call_id=call_id,
                    instance=self.instance,
                    path=path,
                    size=len(content),
                    sha256=hashlib.sha256(content).digest(),
                )
            )
            for start in range(0, len(content), _CHUNK):
                yield sandbox_pb2.WriteFileRequest(chunk=content[start : start + _CHUNK])

        response = await self._peer.call(
            self._stub.WriteFile, parts(), timeout=60, turn_token=self._token()
        )
        return bool(response.created)


async def _patiently(work: Callable[[], Awaitable[_Result]]) -> _Result:
    """Repeats what is harmless to repeat while tool-sandbox or the engine is away.

    Raises:
        SandboxUnavailable: after two minutes.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return await work()
        except (Unavailable, DeadlineExceeded) as error:
            if time.monotonic() >= until:
                raise SandboxUnavailable(error.message) from error
            await asyncio.sleep(min(error.retry_after or 0.2, 2.0))


def _outcome(exited: sandbox_pb2.CommandExited) -> CommandOutcome:
    return CommandOutcome(
        exit_code=exited.exit_code,
        signal=exited.signal,
        timed_out=exited.timed_out,
        head=exited.head,
        tail=exited.tail,
        total_bytes=exited.total_bytes,
        spill_path=exited.spill_path.decode("utf-8", "replace"),
        seconds=max(0.0, (exited.ended_unix_nanos - exited.started_unix_nanos) / 1e9),
    )
