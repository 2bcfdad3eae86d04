"""sandboxd as a process of this machine, and as PID 1 of a hardened container."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import docker
import pytest
from tests.component.sandboxd.sandbox import Sandbox

from herma.tool_sandbox.broker.docker_engine import DockerEngine
from herma.tool_sandbox.broker.local_engine import LocalEngine
from herma.tool_sandbox.broker.template import Template

IMAGE = "herma-base:dev"


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """A sandbox that was greeted."""
    # Short: the name of a unix socket has room for 107 bytes.
    with tempfile.TemporaryDirectory(prefix="hs-", ignore_cleanup_errors=True) as folder:
        sockets, private, workspaces = (Path(folder) / name for name in ("s", "p", "w"))
        for path in (sockets, private, workspaces):
            path.mkdir()
        engine: DockerEngine | LocalEngine
        if request.param == "docker":
            engine = DockerEngine("test-sandboxd", sockets, Template(IMAGE))
        else:
            engine = LocalEngine(sockets, workspaces)
        sandbox = Sandbox(engine, sockets, private)
        try:
            await sandbox.start()
            yield sandbox
        finally:
            await sandbox.close()
            await engine.close()
            if request.param == "docker":
                name = f"herma-test-sandboxd-ws-{sandbox.workspace_id}"
                docker.from_env().volumes.get(name).remove()
