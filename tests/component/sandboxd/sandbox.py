"""One sandbox with a real sandboxd in it, spoken to as tool-sandbox speaks to it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from herma.api.sandboxd.v1 import sandboxd_pb2 as pb
from herma.api.sandboxd.v1 import sandboxd_pb2_grpc
from herma.tool_sandbox.domain.model import Engine, SandboxObject
from herma.tool_sandbox.link import SandboxLink

SECRET = "of-tool-sandbox"


@dataclass
class Ran:
    """What a command did, as a caller saw it."""

    pid: int = 0
    live: bytes = b""
    live_stderr: bytes = b""
    exited: pb.CommandExited = field(default_factory=pb.CommandExited)
    never_seen: bool = False

    @property
    def kept(self) -> bytes:
        """Head and tail."""
        return self.exited.head + self.exited.tail


class Sandbox:
    """See the proto; calls are of epoch 1 unless told otherwise."""

    def __init__(self, engine: Engine, sockets: Path, private: Path) -> None:
        self.engine = engine
        self.id = str(uuid.uuid4())
        self.workspace_id = str(uuid.uuid4())
        self.object: SandboxObject
        self.hello: pb.HelloResponse
        self.stub: Any
        self._sockets = sockets
        self._private = private
        self._link: SandboxLink
        self.metadata = (("herma-sandbox-secret", SECRET),)

    async def start(self) -> None:
        """Makes it and greets it."""
        await self._listen()
        self.object = await self.engine.create(self.id, self.workspace_id)
        await self._greet()

    async def redial(self) -> None:
        """Drops the connection, as a tool-sandbox does that dies, and takes the next one."""
        await self._link.close()
        await self._listen()
        await self._greet()

    async def close(self) -> None:
        """Removes it."""
        await self._link.close()
        await self.engine.remove(self.id)

    async def _listen(self) -> None:
        self._link = SandboxLink(self._sockets / self.id, self._private)
        await self._link.open()

    async def _greet(self) -> None:
        channel = await self._link.channel(self.object.pid, self.object.uid, 20)
        self.stub = sandboxd_pb2_grpc.SandboxdServiceStub(channel)
        self.hello = await self.stub.Hello(
            pb.HelloRequest(secret=SECRET), timeout=10, wait_for_ready=True
        )

    def stream_exec(
        self,
        command: str,
        call_id: str = "",
        *,
        epoch: int = 1,
        timeout: float = 30.0,
        directory: bytes = b"",
        environment: dict[str, str] | None = None,
        limit: int = 0,
    ) -> Any:
        """The call itself, to be followed or cancelled."""
        request = pb.ExecRequest(
            call_id=call_id or str(uuid.uuid4()),
            epoch=epoch,
            command=command,
            working_directory=directory,
            environment=environment or {},
            output_limit=limit,
        )
        request.timeout.FromMilliseconds(int(timeout * 1000))
        return self.stub.Exec(request, metadata=self.metadata, timeout=60)

    async def run(self, command: str, call_id: str = "", **options: Any) -> Ran:
        """Runs a command to its end."""
        return await followed(self.stream_exec(command, call_id, **options))

    async def attach(self, call_id: str, *, epoch: int = 1) -> Ran:
        """Joins a command to its end."""
        return await followed(
            self.stub.Attach(
                pb.AttachRequest(call_id=call_id, epoch=epoch), metadata=self.metadata, timeout=60
            )
        )

    async def kill(self, call_id: str, *, epoch: int = 1) -> None:
        """Kills a command."""
        await self.stub.Kill(
            pb.KillRequest(call_id=call_id, epoch=epoch), metadata=self.metadata, timeout=10
        )

    async def end_turn(self, *, epoch: int = 1) -> int:
        """Ends the turn; how many processes were killed."""
        response = await self.stub.EndTurn(
            pb.EndTurnRequest(epoch=epoch), metadata=self.metadata, timeout=10
        )
        killed: int = response.killed
        return killed

    async def write(
        self,
        path: bytes,
        content: bytes,
        *,
        epoch: int = 1,
        mode: int = 0,
        sha256: bytes | None = None,
        size: int | None = None,
    ) -> bool:
        """Replaces a file; whether it is new."""

        async def parts() -> AsyncIterator[pb.WriteFileRequest]:
            yield pb.WriteFileRequest(
                header=pb.WriteFileHeader(
                    call_id=str(uuid.uuid4()),
                    epoch=epoch,
                    path=path,
                    size=len(content) if size is None else size,
                    sha256=hashlib.sha256(content).digest() if sha256 is None else sha256,
                    mode=mode,
                )
            )
            for start in range(0, len(content), 262_144):
                yield pb.WriteFileRequest(chunk=content[start : start + 262_144])

        response = await self.stub.WriteFile(parts(), metadata=self.metadata, timeout=30)
        assert response.size == len(content)
        created: bool = response.created
        return created

    async def read(
        self, path: bytes, offset: int = 0, limit: int = 0, *, epoch: int = 1
    ) -> tuple[bytes, pb.FileHeader]:
        """A file's content and what is known of it."""
        header, content = pb.FileHeader(), b""
        async for part in self.stub.ReadFile(
            pb.ReadFileRequest(path=path, offset=offset, limit=limit, epoch=epoch),
            metadata=self.metadata,
            timeout=30,
        ):
            if part.WhichOneof("part") == "header":
                header = part.header
            else:
                content += part.chunk
        return content, header


async def followed(call: Any) -> Ran:
    """Follows the stream of a command to its end."""
    ran = Ran()
    async for answer in call:
        event = answer.event
        kind = event.WhichOneof("kind")
        if kind == "started":
            ran.pid = event.started.pid
        elif kind == "output" and event.output.is_stderr:
            ran.live_stderr += event.output.data
        elif kind == "output":
            ran.live += event.output.data
        elif kind == "exited":
            ran.exited = event.exited
        else:
            ran.never_seen = True
    return ran
