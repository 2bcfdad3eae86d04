"""The gRPC face of tool-sandbox: unpack, call, pack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from herma.api.sandbox.v1 import sandbox_pb2, sandbox_pb2_grpc
from herma.api.sandboxd.v1 import sandboxd_pb2
from herma.common.errors import InvalidArgument, SandboxUnavailable
from herma.common.ids import parse_id
from herma.common.rpc import current_caller
from herma.common.turn_token import TurnIdentity, TurnTokenVerifier
from herma.tool_sandbox.live import LiveSandbox
from herma.tool_sandbox.sandboxes import Sandboxes
from herma.tool_sandbox.wire import SandboxLied, error_of, event_of, record_span

_MAX_CHUNK = 4 * 1024 * 1024


class SandboxServicer(sandbox_pb2_grpc.SandboxServiceServicer):
    """One session's sandbox, for the turn that the token names."""

    def __init__(self, sandboxes: Sandboxes, verifier: TurnTokenVerifier, backend: str) -> None:
        self._sandboxes = sandboxes
        self._verifier = verifier
        self._backend = backend

    async def Acquire(  # noqa: N802  # the proto's name
        self, request: sandbox_pb2.AcquireRequest, context: Any
    ) -> sandbox_pb2.AcquireResponse:
        live = await self._sandboxes.acquire(self._identity())
        return sandbox_pb2.AcquireResponse(
            sandbox_id=str(live.record.id),
            instance=live.instance,
            backend=self._backend,
            replaced=live.replaced,
        )

    async def Exec(  # noqa: N802
        self, request: sandbox_pb2.ExecRequest, context: Any
    ) -> AsyncIterator[sandbox_pb2.ExecResponse]:
        identity = self._identity()
        call_id = _call_id(request.call_id)
        if not request.instance:
            raise InvalidArgument("no instance", fields={"instance": "must not be empty"})
        async with self._sandboxes.use(identity, request.instance) as live:
            call = live.stub.Exec(
                sandboxd_pb2.ExecRequest(
                    call_id=call_id,
                    epoch=identity.epoch,
                    command=request.command,
                    working_directory=request.working_directory,
                    environment=request.environment,
                    timeout=request.timeout,
                ),
                metadata=live.metadata,
                timeout=context.time_remaining(),
            )
            async for event in _follow(live, call, call_id):
                yield sandbox_pb2.ExecResponse(event=event)

    async def Attach(  # noqa: N802
        self, request: sandbox_pb2.AttachRequest, context: Any
    ) -> AsyncIterator[sandbox_pb2.AttachResponse]:
        identity = self._identity()
        call_id = _call_id(request.call_id)
        async with self._sandboxes.use(identity, request.instance) as live:
            call = live.stub.Attach(
                sandboxd_pb2.AttachRequest(call_id=call_id, epoch=identity.epoch),
                metadata=live.metadata,
                timeout=context.time_remaining(),
            )
            async for event in _follow(live, call, call_id):
                yield sandbox_pb2.AttachResponse(event=event)

    async def Kill(  # noqa: N802
        self, request: sandbox_pb2.KillRequest, context: Any
    ) -> sandbox_pb2.KillResponse:
        identity = self._identity()
        async with self._sandboxes.use(identity, request.instance) as live:
            await _unary(
                live,
                live.stub.Kill,
                sandboxd_pb2.KillRequest(call_id=_call_id(request.call_id), epoch=identity.epoch),
                context,
            )
        return sandbox_pb2.KillResponse()

    async def ReadFile(  # noqa: N802
        self, request: sandbox_pb2.ReadFileRequest, context: Any
    ) -> AsyncIterator[sandbox_pb2.ReadFileResponse]:
        identity = self._identity()
        async with self._sandboxes.use(identity, "") as live:
            call = live.stub.ReadFile(
                sandboxd_pb2.ReadFileRequest(
                    path=request.path,
                    offset=request.offset,
                    limit=request.limit,
                    epoch=identity.epoch,
                ),
                metadata=live.metadata,
                timeout=context.time_remaining(),
            )
            sent, size = 0, -1
            try:
                async for part in call:
                    if part.WhichOneof("part") == "header" and size < 0:
                        size = part.header.size
                        yield sandbox_pb2.ReadFileResponse(
                            header=sandbox_pb2.FileHeader(
                                size=max(0, size), mode=part.header.mode & 0o7777
                            )
                        )
                        continue
                    sent += len(part.chunk)
                    if size < 0 or len(part.chunk) > _MAX_CHUNK or 0 < request.limit < sent:
                        raise SandboxLied("the sandbox sent more than was asked")
                    yield sandbox_pb2.ReadFileResponse(chunk=part.chunk)
            except grpc.aio.AioRpcError as failure:
                raise error_of(failure) from failure
            finally:
                call.cancel()

    async def WriteFile(  # noqa: N802
        self, request_iterator: AsyncIterator[sandbox_pb2.WriteFileRequest], context: Any
    ) -> sandbox_pb2.WriteFileResponse:
        identity = self._identity()
        first = await anext(aiter(request_iterator), None)
        if first is None or not first.HasField("header"):
            raise InvalidArgument("the header comes first", fields={"header": "is missing"})
        header = first.header

        async def parts() -> AsyncIterator[sandboxd_pb2.WriteFileRequest]:
            yield sandboxd_pb2.WriteFileRequest(
                header=sandboxd_pb2.WriteFileHeader(
                    call_id=_call_id(header.call_id),
                    epoch=identity.epoch,
                    path=header.path,
                    size=header.size,
                    sha256=header.sha256,
                    mode=header.mode,
                )
            )
            async for part in request_iterator:
                yield sandboxd_pb2.WriteFileRequest(chunk=part.chunk)

        async with self._sandboxes.use(identity, header.instance) as live:
            response = await _unary(live, live.stub.WriteFile, parts(), context)
        return sandbox_pb2.WriteFileResponse(size=response.size, created=response.created)

    async def EndTurn(  # noqa: N802
        self, request: sandbox_pb2.EndTurnRequest, context: Any
    ) -> sandbox_pb2.EndTurnResponse:
        await self._sandboxes.end_turn(self._identity())
        return sandbox_pb2.EndTurnResponse()

    def _identity(self) -> TurnIdentity:
        return self._verifier.verify(current_caller().turn_token)


async def _follow(live: LiveSandbox, call: Any, call_id: str) -> AsyncIterator[sandbox_pb2.CommandEvent]:
    try:
        async for answer in call:
            event = event_of(answer.event)
            if event.WhichOneof("kind") == "exited" and call_id not in live.traced:
                live.traced.add(call_id)
                record_span(event.exited, call_id, str(live.record.id))
            yield event
            if event.WhichOneof("kind") in ("exited", "never_seen"):
                return
    except grpc.aio.AioRpcError as failure:
        raise error_of(failure) from failure
    finally:
        call.cancel()
    raise SandboxUnavailable("the sandbox ended a stream early", retry_after=0.2)


async def _unary(live: LiveSandbox, method: Any, request: Any, context: Any) -> Any:
    try:
        return await method(request, metadata=live.metadata, timeout=context.time_remaining())
    except grpc.aio.AioRpcError as failure:
        raise error_of(failure) from failure


def _call_id(text: str) -> str:
    return str(parse_id(text, "call_id"))
