"""Commands that turn against their sandbox: each gets a clear end, and the sandbox goes on."""

from __future__ import annotations

import asyncio
import uuid

import grpc
import pytest
from tests.component.sandboxd.sandbox import Sandbox

CONTAINED = pytest.mark.parametrize(
    "sandbox", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True
)


async def goes_on(sandbox: Sandbox, *, epoch: int = 1) -> None:
    """The same sandboxd still answers, over the same connection and over a new one."""
    boot = sandbox.hello.boot_id
    assert (await sandbox.run("echo on", epoch=epoch)).kept == b"on\n"
    await sandbox.redial()
    assert sandbox.hello.boot_id == boot
    assert await sandbox.write(b"still/here", b"x", epoch=epoch)


async def code_of(work) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work
    return caught.value.code()


async def test_a_flood_of_errors_for_two_seconds(sandbox: Sandbox) -> None:
    flood, others = await asyncio.gather(
        sandbox.run("yes errors >&2", timeout=2),
        asyncio.gather(*(sandbox.run("echo between") for _ in range(5))),
    )
    assert flood.exited.ended_unix_nanos - flood.exited.started_unix_nanos < 6e9
    assert flood.exited.timed_out
    assert flood.exited.total_bytes > 1_000_000
    assert len(flood.kept) == 100_000
    assert [ran.kept for ran in others] == [b"between\n"] * 5
    await goes_on(sandbox)


async def test_a_command_that_closes_its_output_is_seen_to_its_end(sandbox: Sandbox) -> None:
    ran = await sandbox.run("echo before; exec >&- 2>&-; sleep 0.8; exit 5")
    assert (ran.kept, ran.exited.exit_code) == (b"before\n", 5)
    assert ran.exited.ended_unix_nanos - ran.exited.started_unix_nanos > 700_000_000


async def test_a_stopped_command_times_out(sandbox: Sandbox) -> None:
    ran = await sandbox.run("kill -STOP $$", timeout=0.3)
    assert (ran.exited.timed_out, ran.exited.signal) == (True, 9)


async def test_a_shell_that_kills_itself_is_told_apart(sandbox: Sandbox) -> None:
    assert (await sandbox.run("kill -9 $$")).exited.signal == 9
    assert (await sandbox.run("exec 'no such command'")).exited.exit_code == 127


async def test_two_hundred_commands_at_once(sandbox: Sandbox) -> None:
    ran = await asyncio.gather(*(sandbox.run(f"echo {number}") for number in range(200)))
    assert [int(one.kept) for one in ran] == list(range(200))
    await goes_on(sandbox)


async def test_a_closed_workspace_is_opened_again(sandbox: Sandbox) -> None:
    await sandbox.write(b"file", b"kept")
    await sandbox.run("chmod 0 .")
    assert (await sandbox.read(b"file"))[0] == b"kept"
    await sandbox.run("chmod 0 .")
    assert (await sandbox.run("cat file")).kept == b"kept"
    await sandbox.run("chmod 0 .")
    await goes_on(sandbox)


async def test_a_workspace_is_deleted_by_its_command(sandbox: Sandbox) -> None:
    await sandbox.run('mkdir -p a; touch a/b; rm -rf -- "$PWD"; rm -rf -- ./* .[!.]*')
    assert await code_of(sandbox.read(b"a/b")) is grpc.StatusCode.NOT_FOUND
    assert await code_of(sandbox.run("true", directory=b"a")) is grpc.StatusCode.NOT_FOUND
    await goes_on(sandbox)


async def test_a_folder_is_deleted_under_a_running_command(sandbox: Sandbox) -> None:
    await sandbox.run("mkdir gone")
    ran = await sandbox.run("rmdir ../gone; echo x > file; ls", directory=b"gone")
    assert ran.exited.exit_code == 0
    await goes_on(sandbox)


async def test_what_lies_in_the_way_of_long_output_is_left_alone(sandbox: Sandbox) -> None:
    call_id = str(uuid.uuid4())
    await sandbox.run(
        f"mkdir -p .herma/output; echo mine > mine; ln -s ../../mine .herma/output/{call_id}.log"
    )
    ran = await sandbox.run("head -c 300000 /dev/zero", call_id)
    assert (ran.exited.total_bytes, ran.exited.spill_path) == (300_000, b"")
    assert (await sandbox.read(b"mine"))[0] == b"mine\n"
    for obstacle in ("ln -s /tmp .herma", "mkfifo .herma", "touch .herma"):
        await sandbox.run(f"rm -rf .herma; {obstacle}")
        ran = await sandbox.run("head -c 300000 /dev/zero")
        assert (ran.exited.total_bytes, ran.exited.spill_path) == (300_000, b""), obstacle


async def test_offsets_beyond_every_file_are_answered(sandbox: Sandbox) -> None:
    await sandbox.write(b"file", b"x")
    assert (await sandbox.read(b"file", 1 << 53))[0] == b""
    assert await code_of(sandbox.read(b"file", (1 << 63) - 1)) is grpc.StatusCode.INVALID_ARGUMENT


@CONTAINED
@pytest.mark.parametrize("number", ["TERM", "INT", "HUP", "USR1", "CHLD", "SEGV", "STOP", "KILL"])
async def test_no_signal_of_a_command_reaches_pid_1(sandbox: Sandbox, number: str) -> None:
    await sandbox.run(f"for i in 1 2 3; do kill -{number} 1; done")
    await asyncio.sleep(0.2)
    await goes_on(sandbox)


@CONTAINED
async def test_kill_all_spares_sandboxd(sandbox: Sandbox) -> None:
    other = asyncio.create_task(sandbox.run("exec sleep 320"))
    await asyncio.sleep(0.3)
    await sandbox.run("kill -9 -1", timeout=5)
    assert (await other).exited.signal == 9
    await goes_on(sandbox)


@CONTAINED
async def test_everything_that_can_be_deleted_is_deleted(sandbox: Sandbox) -> None:
    await sandbox.run("rm -rf --no-preserve-root / 2>/dev/null")
    await goes_on(sandbox)


@CONTAINED
@pytest.mark.parametrize("escape", ["", "setsid "], ids=["group", "sessions"])
async def test_a_fork_bomb_stays_inside_and_ends_with_the_turn(sandbox: Sandbox, escape: str) -> None:
    # Bounded by itself as well: each process ends after 20 s.
    bomb = f"f() {{ {escape}sleep 20 & }}; for i in $(seq 2000); do f; done; wait"
    ran = await sandbox.run(bomb, timeout=4)
    assert ran.exited.pid
    code = grpc.StatusCode.OK
    try:
        await sandbox.run("true")
    except grpc.aio.AioRpcError as error:
        code = error.code()
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED)
    await sandbox.end_turn()
    await goes_on(sandbox)


@CONTAINED
async def test_memory_hogs_are_ended_before_sandboxd(sandbox: Sandbox) -> None:
    one = await sandbox.run("python3 -c 'bytearray(3 << 30)'", timeout=20)
    assert one.exited.exit_code != 0 or one.exited.signal
    # Each smaller than sandboxd itself.
    hog = 'import time; kept = bytearray(b"x") * (16 << 20); time.sleep(8)'
    ran = await sandbox.run(f"for i in $(seq 90); do python3 -c '{hog}' & done; wait", timeout=25)
    assert ran.exited.pid
    await goes_on(sandbox)
