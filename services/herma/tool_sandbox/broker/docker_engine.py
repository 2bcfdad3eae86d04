"""Sandboxes as hardened Docker containers.

No network, no capabilities, no new privileges, read-only root, a non-root user, limits on memory,
processors and processes; mounts are the workspace volume and the read-only socket directory alone.
Engine labels carry deployment and sandbox id, so nothing of another deployment is ever touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import docker
import docker.errors
import requests
from docker.types import LogConfig, Mount

from herma.common.errors import SandboxUnavailable
from herma.tool_sandbox.broker.template import Template
from herma.tool_sandbox.domain.model import SandboxObject

_DEPLOYMENT = "herma.deployment"
_SANDBOX = "herma.sandbox"
_Result = TypeVar("_Result")


class DockerEngine:
    """One deployment's containers.

    Args:
        deployment: Names this installation in labels, container and volume names.
        sockets: Host folder with one folder per sandbox.
    """

    name = "docker"

    def __init__(self, deployment: str, sockets: Path, template: Template) -> None:
        self._deployment = deployment
        self._sockets = sockets
        self._template = template
        self._client: docker.DockerClient | None = None

    async def create(self, sandbox_id: str, workspace_id: str) -> SandboxObject:
        """See `Engine`."""
        return await self._do(lambda client: self._create(client, sandbox_id, workspace_id))

    async def inspect(self, sandbox_id: str) -> SandboxObject | None:
        """See `Engine`."""
        return await self._do(lambda client: self._inspect(client, sandbox_id))

    async def remove(self, sandbox_id: str) -> None:
        """See `Engine`."""
        await self._do(lambda client: self._remove(client, sandbox_id))

    async def objects(self) -> list[SandboxObject]:
        """See `Engine`."""
        return await self._do(self._list)

    async def problem(self) -> str:
        """Why no sandbox could be made, for people; empty when one could."""
        try:
            await self._do(lambda client: client.images.get(self._template.image))
        except SandboxUnavailable as error:
            return error.message
        return ""

    async def close(self) -> None:
        """Closes the client; containers stay."""
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    def _create(self, client: docker.DockerClient, sandbox_id: str, workspace_id: str) -> SandboxObject:
        found = self._inspect(client, sandbox_id)
        if found is not None and found.running:
            return found
        if found is not None:
            self._remove(client, sandbox_id)
        template = self._template
        container = client.containers.create(
            template.image,
            name=self._name(sandbox_id),
            labels={_DEPLOYMENT: self._deployment, _SANDBOX: sandbox_id},
            hostname="sandbox",
            user=f"{template.user}:{template.user}",
            environment={
                "HERMA_SANDBOXD_SOCKET": "/run/herma/sandboxd.sock",
                "HERMA_SANDBOXD_WORKSPACE": "/workspace",
            },
            working_dir="/workspace",
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            read_only=True,
            tmpfs={
                "/tmp": f"rw,nosuid,nodev,size={template.tmp_bytes},mode=1777",  # noqa: S108
                "/run/sandboxd": f"rw,nosuid,nodev,noexec,size=1m,mode=0700,uid={template.user}",
            },
            mounts=[
                Mount("/workspace", self._volume(workspace_id), type="volume"),
                Mount(
                    "/run/herma",
                    str(self._sockets / sandbox_id),
                    type="bind",
                    read_only=True,
                ),
            ],
            mem_limit=template.memory_bytes,
            memswap_limit=template.memory_bytes,
            nano_cpus=int(template.cpus * 1e9),
            pids_limit=template.pids,
            ipc_mode="private",
            init=False,
            log_config=LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
        )
        container.start()
        started = self._inspect(client, sandbox_id)
        if started is None or not started.running:
            raise SandboxUnavailable("the sandbox's container does not stay up", retry_after=2)
        return started

    def _inspect(self, client: docker.DockerClient, sandbox_id: str) -> SandboxObject | None:
        try:
            container = client.containers.get(self._name(sandbox_id))
        except docker.errors.NotFound:
            return None
        return self._object(container)

    def _remove(self, client: docker.DockerClient, sandbox_id: str) -> None:
        try:
            client.containers.get(self._name(sandbox_id)).remove(force=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            # Another removal of the same container is under way.
            if error.status_code != 409:
                raise

    def _list(self, client: docker.DockerClient) -> list[SandboxObject]:
        containers = client.containers.list(
            all=True,
            ignore_removed=True,
            filters={"label": f"{_DEPLOYMENT}={self._deployment}"},
        )
        return [self._object(container) for container in containers]

    def _object(self, container: Any) -> SandboxObject:
        state = container.attrs["State"]
        running = bool(state.get("Running")) and not state.get("Paused")
        return SandboxObject(
            sandbox_id=container.labels.get(_SANDBOX, ""),
            object_id=container.id,
            running=running,
            pid=int(state.get("Pid") or 0) if running else 0,
            uid=self._template.user,
        )

    def _name(self, sandbox_id: str) -> str:
        return f"herma-{self._deployment}-{sandbox_id}"

    def _volume(self, workspace_id: str) -> str:
        return f"herma-{self._deployment}-ws-{workspace_id}"

    async def _do(self, work: Callable[[docker.DockerClient], _Result]) -> _Result:
        try:
            if self._client is None:
                self._client = await asyncio.to_thread(docker.from_env, timeout=30)
            return await asyncio.to_thread(work, self._client)
        except docker.errors.ImageNotFound as error:
            raise SandboxUnavailable(
                f"the image {self._template.image} is missing; `make images` builds it", retry_after=5
            ) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxUnavailable("the container engine does not answer", retry_after=1) from error
