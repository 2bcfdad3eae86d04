"""The broker as tool-sandbox sees it."""

from __future__ import annotations

from typing import Any

from herma.api.broker.v1 import broker_pb2, broker_pb2_grpc
from herma.common.errors import DeadlineExceeded, NotFound, SandboxUnavailable, Unavailable
from herma.common.rpc import Peer
from herma.tool_sandbox.domain.model import SandboxObject


class BrokerClient:
    """See `Engine`."""

    def __init__(self, peer: Peer, template: str = "base") -> None:
        self._peer = peer
        self._template = template
        self._stub: Any = broker_pb2_grpc.BrokerServiceStub(peer.channel)

    async def create(self, sandbox_id: str, workspace_id: str) -> SandboxObject:
        """See `Engine`."""
        response = await self._call(
            self._stub.CreateSandbox,
            broker_pb2.CreateSandboxRequest(
                sandbox_id=sandbox_id, workspace_id=workspace_id, template=self._template
            ),
            20,
        )
        return _object(response.object)

    async def inspect(self, sandbox_id: str) -> SandboxObject | None:
        """See `Engine`."""
        try:
            response = await self._call(
                self._stub.InspectSandbox, broker_pb2.InspectSandboxRequest(sandbox_id=sandbox_id), 5
            )
        except NotFound:
            return None
        return _object(response.object)

    async def remove(self, sandbox_id: str) -> None:
        """See `Engine`."""
        await self._call(
            self._stub.RemoveSandbox, broker_pb2.RemoveSandboxRequest(sandbox_id=sandbox_id), 20
        )

    async def objects(self) -> list[SandboxObject]:
        """See `Engine`."""
        response = await self._call(self._stub.ListSandboxes, broker_pb2.ListSandboxesRequest(), 10)
        return [_object(found) for found in response.objects]

    async def _call(self, method: Any, request: Any, timeout: float) -> Any:
        try:
            return await self._peer.call(method, request, timeout=timeout)
        except SandboxUnavailable:
            raise
        except (Unavailable, DeadlineExceeded) as error:
            raise SandboxUnavailable("the broker does not answer", retry_after=1) from error


def _object(message: broker_pb2.SandboxObject) -> SandboxObject:
    return SandboxObject(message.sandbox_id, message.object_id, message.running, message.pid, message.uid)
