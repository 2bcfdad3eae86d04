"""The gRPC face of sandboxd: unpack, call, pack."""

from __future__ import annotations

import asyncio
import hmac
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import grpc

from herma.api.sandboxd.v1 import sandboxd_pb2 as pb
from herma.api.sandboxd.v1 import sandboxd_pb2_grpc
from herma.sandboxd.commands import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Command,
    CommandTable,
    Exit,
    Fenced,
)
from herma.sandboxd.workspace import FileMissing, PathRefused, Workspace, read_chunks

SECRET_KEY = "herma-sandbox-secret"  # noqa: S105  # the name of the metadata entry

_MAX_FILE = 256 * 1024 * 1024


class SandboxdServicer(sandboxd_pb2_grpc.SandboxdServiceServicer):
    """Commands and files."""

    def __init__(self, commands: CommandTable, workspace: Workspace, version: str) -> None:
        self._commands = commands
        self._workspace = workspace
        self._version = version
        self._boot_id = uuid.uuid4().hex
        self._secret = ""

    async def Hello(self, request: pb.HelloRequest, context: Any) -> pb.HelloResponse:  # noqa: N802
        if not self._secret and request.secret:
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
        if not request.call_id or not 0 < timeout <= 86_400 or not 0 < limit <= MAX_LIMIT:
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
        command = self._commands.get(request.call_id)
        if command is None:
            yield pb.AttachResponse(event=pb.CommandEvent(never_seen=pb.NeverSeen()))
            return
        async for event in _events(command):
            yield pb.AttachResponse(event=event)

    async def Kill(self, request: pb.KillRequest, context: Any) -> pb.KillResponse:  # noqa: N802
        await self._admit(context, request.epoch)
        command = self._commands.get(request.call_id)
        if command is not None:
            command.kill(9)
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

    async def WriteFile(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.WriteFileRequest], context: Any
    ) -> pb.WriteFileResponse:
        header: pb.WriteFileHeader | None = None
        chunks: list[bytes] = []
        size = 0
        async for part in request_iterator:
            if header is None:
                header = part.header
                await self._admit(context, header.epoch)
                if not 0 <= header.size <= _MAX_FILE or len(header.sha256) != 32:
                    await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "the header is malformed")
                continue
            size += len(part.chunk)
            if size > header.size:
                await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "more than was announced")
            chunks.append(part.chunk)
        if header is None:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "the header is missing")
        try:
            created = await asyncio.to_thread(
                self._workspace.replace,
                header.path,
                chunks,
                header.size,
                header.sha256,
                header.mode,
            )
        except PathRefused as error:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except OSError as error:
            await _refuse(
                context,
                grpc.StatusCode.INVALID_ARGUMENT,
                f"the file cannot be written: {os.strerror(error.errno or 0)}",
            )
        return pb.WriteFileResponse(size=size, created=created)

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


async def _events(command: Command) -> AsyncIterator[pb.CommandEvent]:
    yield pb.CommandEvent(started=pb.CommandStarted(pid=command.pid))
    async for item in command.follow():
        if isinstance(item, Exit):
            yield pb.CommandEvent(
                exited=pb.CommandExited(
                    exit_code=item.exit_code,
                    signal=item.signal,
                    timed_out=item.timed_out,
                    head=item.head,
                    tail=item.tail,
                    total_bytes=item.total,
                    spill_path=item.spill_path,
                    pid=item.pid,
                    started_unix_nanos=item.started,
                    ended_unix_nanos=item.ended,
                )
            )
        else:
            yield pb.CommandEvent(output=pb.CommandOutput(data=item.data, is_stderr=item.is_stderr))


async def _refuse(context: Any, code: grpc.StatusCode, details: str) -> NoReturn:
    await context.abort(code, details)
    raise AssertionError("abort raises")
