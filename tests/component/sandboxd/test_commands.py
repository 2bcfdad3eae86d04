"""Commands in a sandbox: started at most once, outcomes kept, the fence final."""

from __future__ import annotations

import asyncio
import time
import uuid

import grpc
import pytest
from tests.component.sandboxd.sandbox import Sandbox
from tests.support.waiting import eventually


def new_call() -> str:
    return str(uuid.uuid4())


async def refusal(work) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work
    return caught.value.code(), caught.value.details() or ""


async def started(sandbox: Sandbox, pattern: str) -> None:
    async def is_running() -> bool:
        return bool((await sandbox.run(f"ps -e -o args= | grep '^{pattern}'")).kept)

    await eventually(is_running, f"{pattern} runs")


async def test_streams_are_told_apart_live_and_kept_together(sandbox: Sandbox) -> None:
    ran = await sandbox.run("echo out; echo err >&2; exit 3")
    assert (ran.live, ran.live_stderr) == (b"out\n", b"err\n")
    assert sorted(ran.kept.split()) == [b"err", b"out"]
    assert (ran.exited.exit_code, ran.exited.signal, ran.exited.timed_out) == (3, 0, False)
    assert ran.exited.total_bytes == 8
    assert ran.pid == ran.exited.pid > 0
    assert 0 < ran.exited.started_unix_nanos <= ran.exited.ended_unix_nanos <= time.time_ns()


async def test_output_comes_before_the_end(sandbox: Sandbox) -> None:
    call = sandbox.stream_exec("echo first; sleep 20")
    async for answer in call:
        if answer.event.WhichOneof("kind") == "output":
            assert answer.event.output.data == b"first\n"
            break
    call.cancel()


async def test_the_same_call_id_never_starts_twice(sandbox: Sandbox) -> None:
    call_id = new_call()
    command = "echo ran >> runs; sleep 0.3; wc -l < runs"
    both = await asyncio.gather(sandbox.run(command, call_id), sandbox.run(command, call_id))
    again = await sandbox.run(command, call_id)
    assert [ran.kept.strip() for ran in (*both, again)] == [b"1", b"1", b"1"]
    assert len({ran.exited.pid for ran in (*both, again)}) == 1


async def test_a_cancelled_stream_does_not_kill(sandbox: Sandbox) -> None:
    call_id = new_call()
    call = sandbox.stream_exec("sleep 0.5; echo survived", call_id)
    assert (await call.read()).event.WhichOneof("kind") == "started"
    call.cancel()
    assert (await sandbox.attach(call_id)).kept == b"survived\n"


async def test_a_dropped_connection_does_not_kill(sandbox: Sandbox) -> None:
    call_id, boot = new_call(), sandbox.hello.boot_id
    for round_number in range(3):
        call = sandbox.stream_exec("sleep 1; echo survived", call_id)
        assert (await call.read()).event.WhichOneof("kind") == "started", round_number
        await sandbox.redial()
    assert sandbox.hello.boot_id == boot
    assert (await sandbox.attach(call_id)).kept == b"survived\n"


async def test_attach_replays_what_is_done(sandbox: Sandbox) -> None:
    call_id = new_call()
    first = await sandbox.run("echo done", call_id)
    assert (await sandbox.attach(call_id, epoch=2)).exited == first.exited


async def test_never_seen_is_final(sandbox: Sandbox) -> None:
    call_id = new_call()
    assert (await sandbox.attach(call_id, epoch=5)).never_seen
    code, details = await refusal(sandbox.run("touch started", call_id, epoch=4))
    assert (code, details) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST")
    assert (await sandbox.run("ls", call_id, epoch=5)).kept == b""


async def test_the_fence_bars_every_method(sandbox: Sandbox) -> None:
    await sandbox.run("true", epoch=7)
    for work in (
        sandbox.run("true", epoch=6),
        sandbox.attach(new_call(), epoch=6),
        sandbox.kill(new_call(), epoch=6),
        sandbox.end_turn(epoch=6),
        sandbox.read(b"x", epoch=6),
        sandbox.write(b"x", b"", epoch=6),
    ):
        assert await refusal(work) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST")


async def test_a_turns_end_kills_all_and_forgets(sandbox: Sandbox) -> None:
    done, running = new_call(), new_call()
    await sandbox.run("setsid sleep 300 & disown; echo hidden", done)
    ends = asyncio.create_task(sandbox.run("exec sleep 299", running))
    await started(sandbox, "[s]leep 299")
    assert await sandbox.end_turn() == 2
    assert (await ends).exited.signal == 9
    for call_id in (done, running):
        assert await refusal(sandbox.attach(call_id)) == (
            grpc.StatusCode.ABORTED,
            "OUTCOME_FORGOTTEN",
        )
        assert (await refusal(sandbox.run("touch twice", call_id)))[0] is grpc.StatusCode.ABORTED
    assert b"twice" not in (await sandbox.run("ls; ps -e -o args", epoch=2)).kept
    await sandbox.kill(done, epoch=2)


async def test_a_timeout_ends_the_whole_group(sandbox: Sandbox) -> None:
    before = time.monotonic()
    ran = await sandbox.run("echo begun; sleep 301 & sleep 302", timeout=0.4)
    assert ran.exited.timed_out
    assert ran.exited.signal == 15
    assert ran.kept == b"begun\n"
    assert time.monotonic() - before < 2.5
    assert (await sandbox.run("ps -e -o args= | grep '^[s]leep 30[12]'")).kept == b""


async def test_who_ignores_the_end_is_killed(sandbox: Sandbox) -> None:
    before = time.monotonic()
    ran = await sandbox.run("trap '' TERM; sleep 303; sleep 303; sleep 303", timeout=0.3)
    assert (ran.exited.timed_out, ran.exited.signal) == (True, 9)
    assert 2.0 < time.monotonic() - before < 5


async def test_a_child_that_holds_the_pipe_does_not_hang(sandbox: Sandbox) -> None:
    before = time.monotonic()
    ran = await sandbox.run("sleep 304 & echo parent")
    assert (ran.kept, ran.exited.exit_code) == (b"parent\n", 0)
    assert time.monotonic() - before < 3


async def test_kill_reaches_the_group(sandbox: Sandbox) -> None:
    call_id = new_call()
    running = asyncio.create_task(sandbox.run("sleep 305 | cat", call_id))
    await started(sandbox, "[s]leep 305")
    await sandbox.kill(call_id)
    await sandbox.kill(call_id)
    assert (await running).exited.signal == 9


async def test_long_output_keeps_head_and_tail_and_spills(sandbox: Sandbox) -> None:
    call_id = new_call()
    ran = await sandbox.run("for i in $(seq -w 200000); do echo $i; done; exit 4", call_id, limit=10_000)
    whole = b"".join(b"%06d\n" % number for number in range(1, 200_001))
    assert ran.exited.total_bytes == len(whole)
    assert ran.exited.exit_code == 4
    assert ran.exited.head == whole[:4000]
    assert ran.exited.tail == whole[-6000:]
    assert ran.exited.spill_path == b".herma/output/" + call_id.encode() + b".log"
    assert (await sandbox.read(ran.exited.spill_path))[0] == whole


async def test_binary_output_is_kept_byte_for_byte(sandbox: Sandbox) -> None:
    script = "import os,sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)"
    ran = await sandbox.run(f"python3 -c '{script}'", limit=1_000_000)
    assert ran.exited.total_bytes == 1 << 20
    assert ran.live == bytes(range(256)) * 4096
    ran = await sandbox.run(f"python3 -c '{script}' 2>&- | head -c 90000")
    assert ran.exited.head == (bytes(range(256)) * 4096)[:90_000]
    assert (ran.exited.tail, ran.exited.spill_path) == (b"", b"")


async def test_the_environment_is_small_and_without_secrets(sandbox: Sandbox) -> None:
    ran = await sandbox.run("env; cat; id -u", environment={"GIVEN": "ä b"})
    names = {line.split(b"=")[0] for line in ran.kept.splitlines() if b"=" in line}
    assert names <= {
        *(b"GIVEN", b"HOME", b"LANG", b"PATH", b"TERM", b"TMPDIR", b"USER"),
        *(b"PWD", b"OLDPWD", b"SHLVL", b"_"),
    }
    assert "GIVEN=ä b".encode() in ran.kept


async def test_a_command_starts_where_it_is_told(sandbox: Sandbox) -> None:
    await sandbox.run("mkdir -p 'a b/c'; ln -s / out; ln -s 'a b' in")
    assert (await sandbox.run("pwd", directory=b"a b/c")).kept.endswith(b"/a b/c\n")
    assert (await sandbox.run("pwd", directory=b"in/c")).kept.endswith(b"/a b/c\n")
    for directory, code in (
        (b"..", grpc.StatusCode.INVALID_ARGUMENT),
        (b"out", grpc.StatusCode.INVALID_ARGUMENT),
        (b"/etc", grpc.StatusCode.INVALID_ARGUMENT),
        (b"missing", grpc.StatusCode.NOT_FOUND),
    ):
        assert (await refusal(sandbox.run("pwd", directory=directory)))[0] is code


async def test_malformed_commands_are_refused(sandbox: Sandbox) -> None:
    for work in (
        sandbox.run("true", "../../escape"),
        sandbox.run("true", timeout=0),
        sandbox.run("true", timeout=100_000),
        sandbox.run("true", limit=100_000_000),
        sandbox.run("true\0"),
    ):
        assert (await refusal(work))[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_only_who_knows_the_secret_is_answered(sandbox: Sandbox) -> None:
    sandbox.metadata = (("herma-sandbox-secret", "guessed"),)
    assert (await refusal(sandbox.run("true")))[0] is grpc.StatusCode.UNAUTHENTICATED
    sandbox.metadata = ()
    assert (await refusal(sandbox.read(b"x")))[0] is grpc.StatusCode.UNAUTHENTICATED


async def test_orphans_are_reaped(sandbox: Sandbox) -> None:
    await sandbox.run("for i in 1 2 3 4 5; do (setsid true &) ; done")

    async def no_zombies() -> bool:
        ran = await sandbox.run(f"ps -e -o stat=,ppid= | grep -c '^Z.* {sandbox.hello.pid}$'")
        return ran.kept.strip() == b"0"

    await eventually(no_zombies, "no zombies are left")


@pytest.mark.parametrize("sandbox", [pytest.param("docker", marks=pytest.mark.docker)], indirect=True)
async def test_commands_cannot_look_into_sandboxd(sandbox: Sandbox) -> None:
    ran = await sandbox.run(f"cat /proc/{sandbox.hello.pid}/environ || ls /proc/{sandbox.hello.pid}/fd")
    assert ran.exited.exit_code != 0


async def test_the_kernel_takes_commands_before_sandboxd(sandbox: Sandbox) -> None:
    await sandbox.run(
        'until [ "$(cat /proc/$$/oom_score_adj)" = 500 ]; do :; done;'
        " cat /proc/self/oom_score_adj >score",
        timeout=20,
    )
    own = await sandbox.run(f"cat score /proc/{sandbox.hello.pid}/oom_score_adj")
    of_command, of_sandboxd = (int(score) for score in own.kept.split())
    assert of_sandboxd < of_command == 500
