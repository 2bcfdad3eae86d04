"""What is lost, and what is not, when a part of it dies."""

from __future__ import annotations

import asyncio
import uuid

import docker
import pytest
from tests.component.tool_sandbox.service import ToolSandbox, Turn, new_identity, settle_down
from tests.support.waiting import eventually

from herma.api.broker.v1 import broker_pb2, broker_pb2_grpc
from herma.common.errors import PermissionDenied, SandboxLost, SandboxUnavailable, Unavailable

SERVICE, BROKER = "herma.tool_sandbox", "herma.tool_sandbox.broker"


async def test_a_killed_tool_sandbox_loses_no_command(own_service: ToolSandbox, own_turn: Turn) -> None:
    await own_turn.acquire()
    call_id = str(uuid.uuid4())
    command = "echo ran >> runs; sleep 2; wc -l < runs"
    running = asyncio.create_task(own_turn.run(command, call_id))
    await settle_down()
    for _ in range(2):
        own_service.kill(SERVICE)
        await own_service.start()
    with pytest.raises(Unavailable):
        await running
    later = own_turn.again()
    joined = await later.attach(call_id)
    assert (joined.kept, joined.exited.exit_code) == (b"1\n", 0)
    assert (await later.run(command, call_id)).kept == b"1\n"
    acquired = await later.acquire()
    assert (acquired.instance, acquired.replaced) == (own_turn.instance, False)


async def test_a_killed_sandbox_is_lost_and_its_files_are_not(
    own_service: ToolSandbox, own_turn: Turn
) -> None:
    acquired = await own_turn.acquire()
    await own_turn.write(b"kept", b"x")
    call_id = str(uuid.uuid4())
    running = asyncio.create_task(own_turn.run("sleep 300", call_id))
    await settle_down()
    await own_service.kill_sandbox(acquired.sandbox_id)
    with pytest.raises(SandboxUnavailable):
        await running
    with pytest.raises(SandboxLost):
        await own_turn.attach(call_id)
    old = own_turn.instance
    again = await own_turn.acquire()
    assert (again.sandbox_id, again.replaced) == (acquired.sandbox_id, True)
    assert again.instance != old
    assert await own_turn.read(b"kept") == b"x"
    assert (await own_turn.run("ls")).kept == b"kept\n"


async def test_idle_sandboxes_are_removed_and_busy_ones_are_not(
    own_service: ToolSandbox, own_turn: Turn
) -> None:
    await own_turn.acquire()
    await own_turn.write(b"kept", b"x")
    assert (await own_turn.run("sleep 3; echo lived")).kept == b"lived\n"

    async def gone() -> bool:
        return not await own_service.objects()

    await eventually(gone, "the idle sandbox is removed")
    acquired = await own_turn.acquire()
    assert acquired.replaced
    assert await own_turn.read(b"kept") == b"x"


async def test_a_sandbox_that_an_earlier_process_left_is_removed_when_idle(
    own_service: ToolSandbox, own_turn: Turn
) -> None:
    await own_turn.acquire()
    own_service.kill(SERVICE)
    await own_service.start()
    assert len(await own_service.objects()) == 1

    async def gone() -> bool:
        return not await own_service.objects()

    await eventually(gone, "it is removed")


async def test_orphans_of_this_deployment_alone_are_removed(
    own_service: ToolSandbox, own_turn: Turn
) -> None:
    own = (await own_turn.acquire()).sandbox_id
    orphan = str(uuid.uuid4())
    foreign = None
    (own_service.folder / "s" / orphan).mkdir()
    if own_service.backend == "docker":
        foreign = docker.from_env().containers.run(
            "herma-base:dev",
            entrypoint=["sleep", "60"],
            detach=True,
            network_mode="none",
            labels={"herma.deployment": f"{own_service.deployment}-other", "herma.sandbox": orphan},
        )
    try:
        async with own_service.broker() as peer:
            await peer.call(
                broker_pb2_grpc.BrokerServiceStub(peer.channel).CreateSandbox,
                broker_pb2.CreateSandboxRequest(
                    sandbox_id=orphan, workspace_id=str(uuid.uuid4()), template="base"
                ),
                timeout=20,
            )

        async def gone() -> bool:
            return await own_service.object_of(orphan) is None

        await eventually(gone, "the orphan is removed")
        assert "removing an orphan" in own_service.log()
        assert (await own_turn.run("echo here")).kept == b"here\n"
        assert await own_service.object_of(own) is not None
        if foreign is not None:
            foreign.reload()
            assert foreign.status == "running"
    finally:
        if foreign is not None:
            foreign.remove(force=True)


async def test_without_the_broker_sandboxes_work_and_new_ones_wait(
    own_service: ToolSandbox, own_turn: Turn
) -> None:
    await own_turn.acquire()
    own_service.kill(BROKER)
    async with own_service.peer() as peer:
        other = Turn(peer, own_service.signer, new_identity())
        with pytest.raises(SandboxUnavailable) as caught:
            await other.acquire()
        assert caught.value.retry_after
        if own_service.backend == "docker":
            assert (await own_turn.run("echo on")).kept == b"on\n"
        await own_service.start()
        assert (await other.acquire()).instance


async def test_the_broker_takes_tool_sandbox_and_granted_templates_alone(
    own_service: ToolSandbox,
) -> None:
    request = broker_pb2.CreateSandboxRequest(
        sandbox_id=str(uuid.uuid4()), workspace_id=str(uuid.uuid4()), template="other"
    )
    assert own_service.broker_socket.stat().st_mode & 0o777 == 0o660
    async with own_service.broker() as peer:
        stub = broker_pb2_grpc.BrokerServiceStub(peer.channel)
        for change in ({}, {"template": "base", "sandbox_id": "../x"}):
            for name, value in change.items():
                setattr(request, name, value)
            with pytest.raises(Exception, match=r"template|sandbox_id|UUID|uuid"):
                await peer.call(stub.CreateSandbox, request, timeout=10)
    async with own_service.peer() as peer:
        stub = broker_pb2_grpc.BrokerServiceStub(peer.channel)
        with pytest.raises((PermissionDenied, Exception)):
            await peer.call(stub.ListSandboxes, broker_pb2.ListSandboxesRequest(), timeout=5)
    assert not await own_service.objects()
