"""The gRPC face of sandboxd: unpack, call, pack."""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import grpc

from herma.api.sandboxd.v1 import sandboxd_pb2 as pb
from herma.api.sandboxd.v1 import sandboxd_pb2_grpc
from herma.sandboxd.commands import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Command,
    CommandTable,
    Fenced,
    Forgotten,
)
from herma.sandboxd.draft import ContentRefused
from herma.sandboxd.workspace import FileMissing, PathRefused, Workspace, read_chunks

SECRET_KEY = "herma-sandbox-secret"  # noqa: S105  # the name of the metadata entry

_MAX_FILE = 256 * 1024 * 1024
# It names the spill file.
_CALL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class SandboxdServicer(sandboxd_pb2_grpc.SandboxdServiceServicer):
    """Commands and files."""

    def __init__(self, commands: CommandTable, workspace: Workspace, version: str) -> None:
        self._commands = commands
        self._workspace = workspace
        self._version = version
        self._boot_id = uuid.uuid4().hex
        self._secret = ""

    async def Hello(self, request: pb.HelloRequest, context: Any) -> pb.HelloResponse:  # noqa: N802
        if not request.secret:
            await _refuse(context, grpc.StatusCode.UNAUTHENTICATED, "the secret is missing")
        if not self._secret:
            # First come: tool-sandbox, before any command ran in here.
            self._secret = request.secret
        if not hmac.compare_digest(self._secret.encode(), request.secret.encode()):
            await _refuse(context, grpc.StatusCode.UNAUTHENTICATED, "another secret is pinned")
        return pb.HelloResponse(pid=os.getpid(), boot_id=self._boot_id, version=self._version)

    async def Exec(  # noqa: N802
        self, request: pb.ExecRequest, context: Any
    ) -> AsyncIterator[pb.ExecResponse]:
        await self._admit(context, request.epoch)
        limit = request.output_limit or DEFAULT_LIMIT
        timeout = request.timeout.ToMilliseconds() / 1000
        if (
            not _CALL_ID.fullmatch(request.call_id)
            or not 0 < timeout <= 86_400
            or not 0 < limit <= MAX_LIMIT
        ):
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "the command is malformed")
        try:
            command = self._commands.start(
                request.call_id,
                request.command,
                request.working_directory,
                dict(request.environment),
                timeout,
                limit,
            )
        except Forgotten:
            await _refuse(context, grpc.StatusCode.ABORTED, "OUTCOME_FORGOTTEN")
        except FileMissing as error:
            await _refuse(context, grpc.StatusCode.NOT_FOUND, str(error))
        except (PathRefused, ValueError) as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except OSError as error:
            await _refuse(
                context,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"the command cannot be started: {os.strerror(error.errno or 0)}",
            )
        async for event in _events(command):
            yield pb.ExecResponse(event=event)

    async def Attach(  # noqa: N802
        self, request: pb.AttachRequest, context: Any
    ) -> AsyncIterator[pb.AttachResponse]:
        await self._admit(context, request.epoch)
        try:
            command = self._commands.get(request.call_id)
        except Forgotten:
            await _refuse(context, grpc.StatusCode.ABORTED, "OUTCOME_FORGOTTEN")
        if command is None:
            yield pb.AttachResponse(event=pb.CommandEvent(never_seen=pb.NeverSeen()))
            return
        async for event in _events(command):
            yield pb.AttachResponse(event=event)

    async def Kill(self, request: pb.KillRequest, context: Any) -> pb.KillResponse:  # noqa: N802
        await self._admit(context, request.epoch)
        try:
            command = self._commands.get(request.call_id)
        except Forgotten:
            command = None
        if command is not None:
            command.kill(signal.SIGKILL)
        return pb.KillResponse()

    async def ReadFile(  # noqa: N802
        self, request: pb.ReadFileRequest, context: Any
    ) -> AsyncIterator[pb.ReadFileResponse]:
        await self._admit(context, request.epoch)
        if request.offset < 0 or request.limit < 0:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "offset and limit are 0 or more")
        try:
            with self._workspace.open_for_reading(request.path) as (descriptor, found):
                yield pb.ReadFileResponse(
                    header=pb.FileHeader(size=found.st_size, mode=found.st_mode & 0o7777)
                )
                for chunk in read_chunks(descriptor, request.offset, request.limit):
                    yield pb.ReadFileResponse(chunk=chunk)
        except FileMissing as error:
            await _refuse(context, grpc.StatusCode.NOT_FOUND, str(error))
        except PathRefused as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except OSError as error:
            await _refuse(
                context,
                grpc.StatusCode.INVALID_ARGUMENT,
                f"the file cannot be read: {os.strerror(error.errno or 0)}",
            )

    async def WriteFile(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.WriteFileRequest], context: Any
    ) -> pb.WriteFileResponse:
        parts = aiter(request_iterator)
        first = await anext(parts, None)
        header = first.header if first is not None else pb.WriteFileHeader()
        await self._admit(context, header.epoch)
        if not 0 <= header.size <= _MAX_FILE or len(header.sha256) != 32:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "the header is malformed")
        try:
            with self._workspace.replacement(header.path, header.mode) as draft:
                async for part in parts:
                    if draft.size + len(part.chunk) > header.size:
                        raise ContentRefused("there is more content than was announced")
                    draft.write(part.chunk)
                # A newer holder may have come while the content was on its way.
                await self._admit(context, header.epoch)
                await _undisturbed(draft.commit, header.size, header.sha256)
                return pb.WriteFileResponse(size=draft.size, created=draft.created)
        except (PathRefused, ContentRefused) as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except OSError as error:
            await _refuse(
                context,
                grpc.StatusCode.INVALID_ARGUMENT,
                f"the file cannot be written: {os.strerror(error.errno or 0)}",
            )

    async def EndTurn(self, request: pb.EndTurnRequest, context: Any) -> pb.EndTurnResponse:  # noqa: N802
        await self._admit(context, request.epoch)
        return pb.EndTurnResponse(killed=self._commands.end_turn(request.epoch))

    async def _admit(self, context: Any, epoch: int) -> None:
        presented = dict(context.invocation_metadata() or ()).get(SECRET_KEY, "")
        if not self._secret or not hmac.compare_digest(self._secret.encode(), presented.encode()):
            await _refuse(context, grpc.StatusCode.UNAUTHENTICATED, "the secret is not right")
        try:
            self._commands.pass_fence(epoch)
        except Fenced:
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST")


async def _undisturbed(work: Callable[[int, bytes], None], size: int, sha256: bytes) -> None:
    """In a thread, to its end even when the call is cancelled: it works on open descriptors."""
    task = asyncio.ensure_future(asyncio.to_thread(work, size, sha256))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _events(command: Command) -> AsyncIterator[pb.CommandEvent]:
    # Listens before it yields: what is written meanwhile must not be missed.
    with command.listening() as pieces:
        yield pb.CommandEvent(started=pb.CommandStarted(pid=command.pid))
        while (piece := await pieces.get()) is not None:
            yield pb.CommandEvent(output=pb.CommandOutput(data=piece.data, is_stderr=piece.is_stderr))
    ended = command.done.result()
    yield pb.CommandEvent(
        exited=pb.CommandExited(
            exit_code=ended.exit_code,
            signal=ended.signal,
            timed_out=ended.timed_out,
            head=ended.head,
            tail=ended.tail,
            total_bytes=ended.total,
            spill_path=ended.spill_path,
            pid=ended.pid,
            started_unix_nanos=ended.started,
            ended_unix_nanos=ended.ended,
        )
    )


async def _refuse(context: Any, code: grpc.StatusCode, details: str) -> NoReturn:
    await context.abort(code, details)
    raise AssertionError("abort raises")
