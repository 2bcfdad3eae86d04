"""The gRPC face of the broker: unpack, call, pack."""

from __future__ import annotations

from typing import Any, Protocol

from herma.api.broker.v1 import broker_pb2, broker_pb2_grpc
from herma.common.errors import InvalidArgument, NotFound
from herma.common.ids import parse_id
from herma.tool_sandbox.domain.model import Engine, SandboxObject

GRANTED_TEMPLATES = frozenset({"base"})


class BrokeredEngine(Engine, Protocol):
    """An engine that can say how it is."""

    name: str

    async def problem(self) -> str:
        """For people; empty when all is well."""
        ...


class BrokerServicer(broker_pb2_grpc.BrokerServiceServicer):
    """The narrow way to an engine."""

    def __init__(self, engine: BrokeredEngine) -> None:
        self._engine = engine

    async def CreateSandbox(  # noqa: N802  # the proto's name
        self, request: broker_pb2.CreateSandboxRequest, context: Any
    ) -> broker_pb2.CreateSandboxResponse:
        if request.template not in GRANTED_TEMPLATES:
            raise InvalidArgument("no such template", fields={"template": "is not granted"})
        found = await self._engine.create(
            str(parse_id(request.sandbox_id, "sandbox_id")),
            str(parse_id(request.workspace_id, "workspace_id")),
        )
        return broker_pb2.CreateSandboxResponse(object=_message(found))

    async def InspectSandbox(  # noqa: N802
        self, request: broker_pb2.InspectSandboxRequest, context: Any
    ) -> broker_pb2.InspectSandboxResponse:
        found = await self._engine.inspect(str(parse_id(request.sandbox_id, "sandbox_id")))
        if found is None:
            raise NotFound("no such sandbox")
        return broker_pb2.InspectSandboxResponse(object=_message(found))

    async def RemoveSandbox(  # noqa: N802
        self, request: broker_pb2.RemoveSandboxRequest, context: Any
    ) -> broker_pb2.RemoveSandboxResponse:
        await self._engine.remove(str(parse_id(request.sandbox_id, "sandbox_id")))
        return broker_pb2.RemoveSandboxResponse()

    async def ListSandboxes(  # noqa: N802
        self, request: broker_pb2.ListSandboxesRequest, context: Any
    ) -> broker_pb2.ListSandboxesResponse:
        return broker_pb2.ListSandboxesResponse(
            objects=[_message(found) for found in await self._engine.objects()]
        )

    async def DescribeBackend(  # noqa: N802
        self, request: broker_pb2.DescribeBackendRequest, context: Any
    ) -> broker_pb2.DescribeBackendResponse:
        problem = await self._engine.problem()
        return broker_pb2.DescribeBackendResponse(
            backend=self._engine.name, available=not problem, problem=problem
        )


def _message(found: SandboxObject) -> broker_pb2.SandboxObject:
    return broker_pb2.SandboxObject(
        sandbox_id=found.sandbox_id,
        object_id=found.object_id,
        running=found.running,
        pid=found.pid,
        uid=found.uid,
    )
