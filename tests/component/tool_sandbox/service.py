"""tool-sandbox and its broker as processes, and turns that use them as a runner does."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.support.ports import take_port
from tests.support.waiting import eventually

from herma.api.broker.v1 import broker_pb2, broker_pb2_grpc
from herma.api.sandbox.v1 import sandbox_pb2 as pb
from herma.api.sandbox.v1 import sandbox_pb2_grpc
from herma.common.rpc import Peer, ServiceIdentity, ServiceKeys
from herma.common.turn_token import TurnIdentity, TurnTokenSigner
from herma.local.processes import dies_with_parent
from herma.local.services import grpc_serves

IMAGE = "herma-base:dev"
KEYS = {
    "agent-runner>tool-sandbox": "k1",
    "gateway>tool-sandbox": "k2",
    "tool-sandbox>tool-sandbox-broker": "k3",
}


def new_signer() -> TurnTokenSigner:
    """A signer with a key of its own."""
    key = Ed25519PrivateKey.generate()
    return TurnTokenSigner(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


class ToolSandbox:
    """Both processes, on one database.

    Args:
        backend: `docker` or `local`.
        folder: For sockets, workspaces, logs and spans; its name must be short.
    """

    def __init__(
        self, backend: str, database_url: str, folder: Path, *, idle_seconds: float = 900
    ) -> None:
        self.backend = backend
        self.signer = new_signer()
        self.deployment = f"test-{uuid.uuid4().hex[:8]}"
        self.folder = folder
        self.address = f"127.0.0.1:{take_port()}"
        self.broker_socket = folder / "broker.sock"
        self.spans = folder / "spans.jsonl"
        (folder / "w").mkdir()
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HERMA_")},
            "HERMA_SERVICE_KEYS": json.dumps(KEYS),
            "HERMA_BROKER_SOCKET": str(self.broker_socket),
            "HERMA_SANDBOX_BACKEND": backend,
            "HERMA_SANDBOX_SOCKET_DIR": str(folder / "s"),
            "HERMA_SANDBOX_LOCAL_DIR": str(folder / "w"),
            "HERMA_SANDBOX_IMAGE": IMAGE,
            "HERMA_INSTALLATION": self.deployment,
            "HERMA_DATABASE_URL": database_url,
            "HERMA_LISTEN": self.address,
            "HERMA_TURN_TOKEN_PUBLIC_KEY": self.signer.public_key_pem.decode(),
            "HERMA_SANDBOX_IDLE_SECONDS": str(idle_seconds),
            "HERMA_SANDBOX_SWEEP_SECONDS": "0.3",
            "HERMA_SPANS_FILE": str(self.spans),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    async def start(self) -> None:
        """Starts what does not run, and waits until it serves."""
        self._spawn("herma.tool_sandbox.broker")
        self._spawn("herma.tool_sandbox")
        for address in (f"unix:{self.broker_socket}", self.address):
            await eventually(lambda address=address: grpc_serves(address), f"{address} serves")

    def kill(self, module: str) -> None:
        """Ends a process as a power cut does."""
        process = self._processes.pop(module)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Ends both; what they made is the caller's to remove."""
        while self._processes:
            module, process = self._processes.popitem()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"{module} does not stop") from None

    def log(self) -> str:
        """What both wrote."""
        return (self.folder / "log").read_text()

    def peer(self, caller: str = "agent-runner") -> Peer:
        """tool-sandbox as a caller sees it."""
        return Peer("tool-sandbox", self.address, ServiceIdentity(caller, ServiceKeys(KEYS)))

    async def objects(self) -> list[broker_pb2.SandboxObject]:
        """What the broker has."""
        async with self.broker() as peer:
            stub: Any = broker_pb2_grpc.BrokerServiceStub(peer.channel)
            response = await peer.call(stub.ListSandboxes, broker_pb2.ListSandboxesRequest(), timeout=10)
        return list(response.objects)

    def broker(self, caller: str = "tool-sandbox") -> Peer:
        """The broker as a caller sees it."""
        identity = ServiceIdentity(caller, ServiceKeys(KEYS))
        return Peer("tool-sandbox-broker", f"unix:{self.broker_socket}", identity)

    async def object_of(self, sandbox_id: str) -> broker_pb2.SandboxObject | None:
        """One sandbox's object."""
        found = [entry for entry in await self.objects() if entry.sandbox_id == sandbox_id]
        return found[0] if found else None

    async def kill_sandbox(self, sandbox_id: str) -> None:
        """Ends a sandbox as a power cut does."""
        found = await self.object_of(sandbox_id)
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)

        async def gone() -> bool:
            left = await self.object_of(sandbox_id)
            return left is None or not left.running

        await eventually(gone, "the sandbox is gone")

    def _spawn(self, module: str) -> None:
        if module in self._processes:
            return
        with (self.folder / "log").open("ab") as log:
            self._processes[module] = subprocess.Popen(
                [sys.executable, "-m", module],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=dies_with_parent(signal.SIGKILL),
            )


@dataclass
class Ran:
    """What a command did, as a runner saw it."""

    pid: int = 0
    live: bytes = b""
    exited: pb.CommandExited = field(default_factory=pb.CommandExited)
    never_seen: bool = False

    @property
    def kept(self) -> bytes:
        """Head and tail."""
        return self.exited.head + self.exited.tail


class Turn:
    """A turn of a session, under one lease."""

    def __init__(self, peer: Peer, signer: TurnTokenSigner, identity: TurnIdentity) -> None:
        self.identity = identity
        self.instance = ""
        self._peer = peer
        self._signer = signer
        self._stub: Any = sandbox_pb2_grpc.SandboxServiceStub(peer.channel)
        self.token = signer.sign(identity)

    def again(self, *, turn_id: uuid.UUID | None = None) -> Turn:
        """The session under the next lease; another turn if given."""
        identity = replace(
            self.identity,
            epoch=self.identity.epoch + 1,
            turn_id=turn_id or self.identity.turn_id,
        )
        turn = Turn(self._peer, self._signer, identity)
        turn.instance = self.instance
        return turn

    async def acquire(self) -> pb.AcquireResponse:
        """Makes the sandbox ready and remembers its instance."""
        response: pb.AcquireResponse = await self._peer.call(
            self._stub.Acquire, pb.AcquireRequest(), timeout=30, turn_token=self.token
        )
        self.instance = response.instance
        return response

    async def run(
        self, command: str, call_id: str = "", *, timeout: float = 30, instance: str | None = None
    ) -> Ran:
        """Runs a command to its end."""
        request = pb.ExecRequest(
            call_id=call_id or str(uuid.uuid4()),
            instance=self.instance if instance is None else instance,
            command=command,
        )
        request.timeout.FromMilliseconds(int(timeout * 1000))
        return await self._follow(self._stub.Exec, request)

    async def attach(self, call_id: str) -> Ran:
        """Joins a command to its end."""
        return await self._follow(
            self._stub.Attach, pb.AttachRequest(call_id=call_id, instance=self.instance)
        )

    async def _follow(self, method: Any, request: Any) -> Ran:
        ran = Ran()
        async for answer in self._peer.stream(method, request, timeout=60, turn_token=self.token):
            kind = answer.event.WhichOneof("kind")
            if kind == "started":
                ran.pid = answer.event.started.pid
            elif kind == "output":
                ran.live += answer.event.output.data
            elif kind == "exited":
                ran.exited = answer.event.exited
            else:
                ran.never_seen = True
        return ran

    async def kill(self, call_id: str) -> None:
        """Kills a command."""
        await self._peer.call(
            self._stub.Kill,
            pb.KillRequest(call_id=call_id, instance=self.instance),
            timeout=10,
            turn_token=self.token,
        )

    async def end(self) -> None:
        """Ends the turn."""
        await self._peer.call(self._stub.EndTurn, pb.EndTurnRequest(), timeout=10, turn_token=self.token)

    async def write(self, path: bytes, content: bytes) -> bool:
        """Replaces a file; whether it is new."""

        async def parts() -> AsyncIterator[pb.WriteFileRequest]:
            yield pb.WriteFileRequest(
                header=pb.WriteFileHeader(
                    call_id=str(uuid.uuid4()),
                    instance=self.instance,
                    path=path,
                    size=len(content),
                    sha256=hashlib.sha256(content).digest(),
                )
            )
            for start in range(0, len(content), 262_144):
                yield pb.WriteFileRequest(chunk=content[start : start + 262_144])

        response = await self._peer.call(self._stub.WriteFile, parts(), timeout=30, turn_token=self.token)
        created: bool = response.created
        return created

    async def read(self, path: bytes, offset: int = 0, limit: int = 0) -> bytes:
        """A file's content."""
        content = b""
        async for part in self._peer.stream(
            self._stub.ReadFile,
            pb.ReadFileRequest(path=path, offset=offset, limit=limit),
            timeout=30,
            turn_token=self.token,
        ):
            content += part.chunk
        return content


def new_identity(*, trust: str = "trusted", expires_in: float = 600) -> TurnIdentity:
    """The first turn of a new session of a new tenant."""
    return TurnIdentity(
        tenant_id=uuid.uuid4(),
        session_id=uuid.uuid4(),
        turn_id=uuid.uuid4(),
        profile_id=uuid.uuid4(),
        principal_id=uuid.uuid4(),
        trust=trust,
        epoch=1,
        expires_at=int(time.time() + expires_in),
    )


async def settle_down() -> None:
    """Lets what was started get under way."""
    await asyncio.sleep(0.3)
