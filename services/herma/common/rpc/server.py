"""A service's gRPC server: guarded, with health and, if asked for, reflection."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import _async as health_aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from herma.common.rpc.guard import GuardInterceptor
from herma.common.rpc.identity import ServiceIdentity

# A ledger of a long session is one message; peers are ours and authenticated.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServedApi:
    """One gRPC service of a server.

    `register` is the generated `add_…Servicer_to_server`; `callers` the services that may call it.
    """

    name: str
    register: Callable[[Any, Any], None]
    servicer: Any
    callers: frozenset[str]
    untraced: frozenset[str] = frozenset()


class RpcServer:
    """Serves the given APIs on one address.

    Args:
        identity: Of this service.
        apis: What to serve.
        listen: `host:port` (0 for any port) or `unix:/path`.
        with_reflection: Serve reflection.
    """

    def __init__(
        self,
        identity: ServiceIdentity,
        apis: Sequence[ServedApi],
        listen: str,
        *,
        with_reflection: bool = False,
    ) -> None:
        guard = GuardInterceptor(
            identity,
            {api.name: api.callers for api in apis},
            frozenset(method for api in apis for method in api.untraced),
        )
        self._server = grpc.aio.server(
            interceptors=(guard,),
            options=(
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                ("grpc.so_reuseport", 0),
                ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
                ("grpc.keepalive_permit_without_calls", 1),
            ),
        )
        for api in apis:
            api.register(api.servicer, self._server)
        self._health = health_aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if with_reflection:
            names = [api.name for api in apis]
            reflection.enable_server_reflection(
                (*names, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
            )
        self._listen = listen
        self._names = [api.name for api in apis]
        self.port = 0

    async def start(self) -> None:
        """Binds and serves, healthy.

        A unix socket is made for this user and group alone (0660); the folder that it lies in decides
        who else comes near it.

        Raises:
            RuntimeError: when the address cannot be bound.
        """
        if self._listen.startswith("unix:"):
            before = os.umask(0o117)
            try:
                await self._bind()
            finally:
                # What this process makes later inherits it.
                os.umask(before)
        else:
            await self._bind()
        await self._set(health_pb2.HealthCheckResponse.SERVING)

    async def _bind(self) -> None:
        self.port = self._server.add_insecure_port(self._listen)
        await self._server.start()

    async def refuse(self) -> None:
        """Tells health checks that this server takes no more work; goes on serving."""
        await self._set(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def stop(self, grace: float) -> None:
        """Stops accepting, lets running calls end for `grace` seconds, then cancels them."""
        await self._server.stop(grace)

    async def _set(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        for name in ("", *self._names):
            await self._health.set(name, status)
