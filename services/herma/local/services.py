"""The five services, and the broker, as programs of one machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, urlsplit, urlunsplit

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from herma.common.errors import AlreadyExists
from herma.local import local_model
from herma.local.installation import Installation
from herma.local.model_route import ModelRoute
from herma.local.ports import Ports, is_free
from herma.local.supervisor import Program, base_environment

# Passed on as they are; everything else that a service needs is set here.
_SHARED = ("HERMA_LOG_LEVEL", "HERMA_OTLP_ENDPOINT", "HERMA_DRAIN_SECONDS", "HERMA_REFLECTION")
_OWN = {
    "session-authority": ("HERMA_LEASE_TTL_SECONDS", "HERMA_SWEEP_SECONDS", "HERMA_DATABASE_POOL_SIZE"),
    "tool-sandbox": ("HERMA_SANDBOX_IDLE_SECONDS", "HERMA_SANDBOX_SWEEP_SECONDS"),
    "tool-sandbox-broker": (
        "HERMA_SANDBOX_MEMORY_BYTES",
        "HERMA_SANDBOX_CPUS",
        "HERMA_SANDBOX_PIDS",
        "DOCKER_HOST",
        "DOCKER_TLS_VERIFY",
        "DOCKER_CERT_PATH",
    ),
    "agent-runner": (
        "HERMA_RUNNER_SLOTS",
        "HERMA_MODEL_IDLE_SECONDS",
    ),
    "gateway": ("HERMA_EGRESS_ALLOWED_NETWORKS",),
    "memory": (),
}
_MODULES = {
    "session-authority": "herma.session_authority",
    "tool-sandbox": "herma.tool_sandbox",
    "tool-sandbox-broker": "herma.tool_sandbox.broker",
    "agent-runner": "herma.agent_runner",
    "gateway": "herma.gateway",
    "memory": "herma.memory",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Addresses and choices of one `herma up`."""

    backend: str
    image: str
    admin_url: str
    http_port: int
    authorities: tuple[int, ...]
    sandbox_port: int
    memory_port: int
    runners: tuple[int, ...]
    gateways: tuple[int, ...]
    model: ModelRoute

    @property
    def authority_address(self) -> str:
        """Of all replicas."""
        return ",".join(f"127.0.0.1:{port}" for port in self.authorities)


class Fleet:
    """Makes the programs of one installation."""

    def __init__(self, installation: Installation, plan: Plan) -> None:
        self._installation = installation
        self._plan = plan
        self._runtime = installation.runtime_folder

    def authorities(self) -> list[Program]:
        """session-authority, all replicas."""
        return [
            self._grpc(
                "session-authority",
                port,
                {
                    "HERMA_DATABASE_URL": self._database_url("authority"),
                    "HERMA_TURN_TOKEN_KEY": self._installation.turn_token_key,
                    "HERMA_AUDIT_ANCHOR_DIR": str(self._installation.folder / "audit-anchors"),
                },
                number if len(self._plan.authorities) > 1 else None,
            )
            for number, port in enumerate(self._plan.authorities, 1)
        ]

    def memory(self) -> Program:
        """memory."""
        return self._grpc(
            "memory",
            self._plan.memory_port,
            {
                "HERMA_DATABASE_URL": self._database_url("memory"),
                "HERMA_TURN_TOKEN_PUBLIC_KEY": self._installation.turn_token_public_key,
            },
        )

    def broker(self) -> Program:
        """The broker of tool-sandbox."""
        socket = self._runtime / "broker.sock"
        return self._program(
            "tool-sandbox-broker",
            f"unix:{socket}",
            {
                "HERMA_BROKER_SOCKET": str(socket),
                "HERMA_SANDBOX_BACKEND": self._plan.backend,
                "HERMA_SANDBOX_IMAGE": self._plan.image,
                "HERMA_SANDBOX_SOCKET_DIR": str(self._runtime / "s"),
                "HERMA_SANDBOX_LOCAL_DIR": str(self._installation.folder / "workspaces"),
                "HERMA_INSTALLATION": self._installation.id,
            },
            lambda: grpc_serves(f"unix:{socket}"),
        )

    def local_model(self) -> list[Program]:
        """The model's process, if the route needs one."""
        port = self._plan.model.port
        if not port:
            return []
        address = f"127.0.0.1:{port}"
        return [
            Program(
                name="local-model",
                argv=[sys.executable, "-m", "herma.local.local_model"],
                environment={
                    **base_environment(),
                    **local_model.environment(port, self._installation.local_model_key),
                },
                log=self._installation.folder / "logs" / "local-model.log",
                ready=partial(http_serves, f"http://{address}/health"),
                address=address,
            )
        ]

    def sandbox(self) -> Program:
        """tool-sandbox."""
        return self._grpc(
            "tool-sandbox",
            self._plan.sandbox_port,
            {
                "HERMA_DATABASE_URL": self._database_url("sandbox"),
                "HERMA_TURN_TOKEN_PUBLIC_KEY": self._installation.turn_token_public_key,
                "HERMA_BROKER_SOCKET": str(self._runtime / "broker.sock"),
                "HERMA_SANDBOX_BACKEND": self._plan.backend,
                "HERMA_SANDBOX_SOCKET_DIR": str(self._runtime / "s"),
            },
        )

    def runners(self) -> list[Program]:
        """agent-runner, all of them."""
        return [
            self._grpc(
                "agent-runner",
                port,
                {
                    "HERMA_AUTHORITY_ADDRESS": self._plan.authority_address,
                    "HERMA_SANDBOX_ADDRESS": f"127.0.0.1:{self._plan.sandbox_port}",
                    "HERMA_MEMORY_ADDRESS": f"127.0.0.1:{self._plan.memory_port}",
                    **self._plan.model.environment,
                },
                number if len(self._plan.runners) > 1 else None,
            )
            for number, port in enumerate(self._plan.runners, 1)
        ]

    def gateways(self) -> list[Program]:
        """gateway, all replicas."""
        programs = []
        for number, port in enumerate(self._plan.gateways, 1):
            address = f"127.0.0.1:{port}"
            programs.append(
                self._program(
                    "gateway",
                    address,
                    {
                        "HERMA_HTTP_LISTEN": address,
                        "HERMA_AUTHORITY_ADDRESS": self._plan.authority_address,
                    },
                    partial(http_serves, f"http://{address}/readyz"),
                    number if len(self._plan.gateways) > 1 else None,
                )
            )
        return programs

    def _grpc(
        self, service: str, port: int, environment: dict[str, str], number: int | None = None
    ) -> Program:
        address = f"127.0.0.1:{port}"
        return self._program(
            service,
            address,
            {"HERMA_LISTEN": address, **environment},
            lambda: grpc_serves(address),
            number,
        )

    def _program(
        self,
        service: str,
        address: str,
        environment: dict[str, str],
        ready: Callable[[], Awaitable[bool]],
        number: int | None = None,
    ) -> Program:
        name = f"{service}-{number}" if number else service
        passed = {key: os.environ[key] for key in (*_SHARED, *_OWN[service]) if os.environ.get(key)}
        return Program(
            name=name,
            argv=[sys.executable, "-m", _MODULES[service]],
            environment={
                **base_environment(),
                **passed,
                "HERMA_SPANS_FILE": str(self._installation.folder / "spans.jsonl"),
                "HERMA_SERVICE_KEYS": json.dumps(self._installation.keys_of(service)),
                "GRPC_ENABLE_FORK_SUPPORT": "0",
                "GRPC_VERBOSITY": "NONE",
                **environment,
            },
            log=self._installation.folder / "logs" / f"{name}.log",
            ready=ready,
            address=address,
        )

    def _database_url(self, role: str) -> str:
        parts = urlsplit(self._plan.admin_url)
        password = quote(self._installation.database_password(role), safe="")
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"herma_{role}_service:{password}@{host}"))


def make_plan(
    ports: Ports,
    backend: str,
    image: str,
    admin_url: str,
    http_port: int,
    authorities: int,
    runners: int,
    gateways: int,
    model: ModelRoute,
) -> Plan:
    """Gives out addresses.

    Raises:
        AlreadyExists: when the HTTP port is taken.
        Unavailable: when there are no free ports.
    """
    if http_port and not is_free(http_port):
        raise AlreadyExists(
            f"port {http_port} is in use; set HERMA_HTTP_PORT to another, or to 0 for any"
        )
    first = http_port or ports.take()
    return Plan(
        backend=backend,
        image=image,
        admin_url=admin_url,
        http_port=first,
        authorities=tuple(ports.take() for _ in range(authorities)),
        sandbox_port=ports.take(),
        memory_port=ports.take(),
        runners=tuple(ports.take() for _ in range(runners)),
        gateways=(first, *(ports.take() for _ in range(gateways - 1))),
        model=model,
    )


async def grpc_serves(address: str) -> bool:
    """Whether a gRPC server there says that it serves."""
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=2
            )
        except grpc.aio.AioRpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def http_serves(url: str) -> bool:
    """Whether an HTTP server there answers 200."""
    async with httpx.AsyncClient(timeout=2) as client:
        try:
            return (await client.get(url)).status_code == 200
        except httpx.HTTPError:
            return False
