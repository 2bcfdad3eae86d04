"""A tool-sandbox that is told to remove its sandboxes when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import docker
import pytest
from tests.component.tool_sandbox.conftest import running
from tests.component.tool_sandbox.service import ToolSandbox, Turn, new_identity
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker


@pytest.fixture
def tidy_service(database_url: str) -> Iterator[ToolSandbox]:
    yield from running("docker", database_url)


def containers(service: ToolSandbox) -> list[str]:
    """Names of the deployment's containers."""
    client = docker.from_env()
    try:
        found = client.containers.list(
            all=True, filters={"label": f"herma.deployment={service.deployment}"}, ignore_removed=True
        )
        return [container.name for container in found]
    finally:
        client.close()


async def test_idle_sandboxes_go_and_the_one_at_work_is_attached_to_again(
    tidy_service: ToolSandbox,
) -> None:
    tidy_service.stop()
    tidy_service.environment["HERMA_SANDBOX_REMOVE_ON_STOP"] = "true"
    await tidy_service.start()
    async with tidy_service.peer() as peer:
        idle = Turn(peer, tidy_service.signer, new_identity())
        working = Turn(peer, tidy_service.signer, new_identity())
        await idle.acquire()
        assert (await idle.run("echo kept > f")).exited.exit_code == 0
        instance = (await working.acquire()).instance
        call = asyncio.create_task(working.run("echo begun > g; sleep 60"))

        async def begun() -> bool:
            return (await working.run("cat g 2>/dev/null || true")).kept == b"begun\n"

        await eventually(begun, "the command runs")
        assert len(containers(tidy_service)) == 2
        await asyncio.to_thread(tidy_service.stop)
        await asyncio.gather(call, return_exceptions=True)
        assert len(containers(tidy_service)) == 1
        assert len(list((tidy_service.folder / "s").iterdir())) == 1
        await tidy_service.start()
        assert (await working.acquire()).instance == instance
        await idle.acquire()
        assert (await idle.run("cat f")).kept == b"kept\n"
    await asyncio.to_thread(tidy_service.stop)
    assert containers(tidy_service) == []
    assert list((tidy_service.folder / "s").iterdir()) == []
