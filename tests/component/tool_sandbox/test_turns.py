"""What a runner gets from a session's sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid

import pytest
from opentelemetry import trace
from tests.component.tool_sandbox.service import ToolSandbox, Turn, new_identity, new_signer
from tests.support.waiting import eventually

from herma.common.errors import (
    InvalidArgument,
    LeaseLost,
    NotFound,
    PermissionDenied,
    SandboxLost,
    Unauthenticated,
)
from herma.common.rpc import Peer


def new_call() -> str:
    return str(uuid.uuid4())


async def test_one_sandbox_per_session(service: ToolSandbox, peer: Peer, turn: Turn) -> None:
    first = await turn.acquire()
    assert (first.backend, first.replaced) == (service.backend, False)
    assert await turn.acquire() == first
    assert (await turn.again().acquire()).instance == first.instance
    other = Turn(peer, service.signer, new_identity())
    assert (await other.acquire()).sandbox_id != first.sandbox_id
    await turn.again().again().write(b"mine", b"x")
    with pytest.raises(NotFound):
        await other.read(b"mine")


async def test_a_command_runs_and_its_outcome_is_whole(turn: Turn) -> None:
    await turn.acquire()
    ran = await turn.run("echo out; echo err >&2; exit 3")
    assert sorted(ran.kept.split()) == [b"err", b"out"]
    assert sorted(ran.live.split()) == [b"err", b"out"]
    assert (ran.exited.exit_code, ran.exited.timed_out) == (3, False)
    assert (await turn.run("sleep 60", timeout=0.3)).exited.timed_out


async def test_a_megabyte_of_binary_output(turn: Turn) -> None:
    await turn.acquire()
    ran = await turn.run("python3 -c 'import os,sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)'")
    whole = bytes(range(256)) * 4096
    assert ran.live == whole
    assert ran.exited.total_bytes == len(whole)
    assert (ran.exited.head, ran.exited.tail) == (whole[:40_000], whole[-60_000:])
    assert await turn.read(ran.exited.spill_path) == whole


async def test_the_same_call_never_starts_twice(turn: Turn) -> None:
    await turn.acquire()
    call_id = new_call()
    command = "echo ran >> runs; sleep 0.3; wc -l < runs"
    both = await asyncio.gather(turn.run(command, call_id), turn.run(command, call_id))
    joined = await turn.again().attach(call_id)
    assert [ran.kept.strip() for ran in (*both, joined)] == [b"1"] * 3


async def test_the_first_calls_of_a_turn_do_not_kill_each_other(turn: Turn) -> None:
    await turn.acquire()
    later = turn.again(turn_id=uuid.uuid4())
    ran = await asyncio.gather(*(later.run("sleep 0.4; echo lived") for _ in range(8)))
    assert [one.kept for one in ran] == [b"lived\n"] * 8


async def test_never_seen_is_final(turn: Turn) -> None:
    await turn.acquire()
    later, call_id = turn.again(), new_call()
    assert (await later.attach(call_id)).never_seen
    with pytest.raises(LeaseLost):
        await turn.run("touch started", call_id)
    assert (await later.run("ls", call_id)).kept == b""


async def test_a_stale_lease_can_do_nothing(turn: Turn) -> None:
    await turn.acquire()
    await turn.again().acquire()
    for work in (
        turn.acquire(),
        turn.run("true"),
        turn.attach(new_call()),
        turn.kill(new_call()),
        turn.read(b"x"),
        turn.write(b"x", b""),
        turn.end(),
    ):
        with pytest.raises(LeaseLost):
            await work


async def test_another_instance_is_lost(turn: Turn) -> None:
    await turn.acquire()
    real, turn.instance = turn.instance, "another.instance"
    for work in (turn.run("true"), turn.attach(new_call()), turn.write(b"x", b"")):
        with pytest.raises(SandboxLost):
            await work
    turn.instance = real
    assert (await turn.run("ls")).kept == b""


async def test_kill_ends_a_command_and_the_turn_goes_on(turn: Turn) -> None:
    await turn.acquire()
    call_id = new_call()
    running = asyncio.create_task(turn.run("sleep 300 | cat", call_id))
    await eventually(lambda: _sees(turn, "sleep 300"), "it runs")
    await turn.kill(call_id)
    assert (await running).exited.signal == 9
    await turn.kill(new_call())
    assert (await turn.run("echo on")).kept == b"on\n"


async def _sees(turn: Turn, text: str) -> bool:
    return text.encode() in (await turn.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).kept


async def test_a_turns_end_kills_and_forgets(turn: Turn) -> None:
    await turn.acquire()
    call_id = new_call()
    await turn.run("(setsid sleep 311 &) ; true", call_id)
    await turn.end()
    later = turn.again(turn_id=uuid.uuid4())
    assert not await _sees(later, "sleep " + "311")
    with pytest.raises(SandboxLost):
        await later.attach(call_id)
    with pytest.raises(SandboxLost):
        await later.run("true", call_id)


async def test_a_new_turn_finds_nothing_of_the_last_one_running(turn: Turn) -> None:
    await turn.acquire()
    await turn.run("(setsid sleep 312 &) ; true")
    same = turn.again()
    await same.acquire()
    assert await _sees(same, "sleep " + "312")
    later = same.again(turn_id=uuid.uuid4())
    await later.acquire()
    assert not await _sees(later, "sleep " + "312")


async def test_the_end_of_a_turn_without_a_sandbox_makes_none(service: ToolSandbox, turn: Turn) -> None:
    before = len(await service.objects())
    await turn.end()
    assert len(await service.objects()) == before


async def test_file_names_are_kept_to_the_byte(turn: Turn) -> None:
    await turn.acquire()
    content = os.urandom(5_000_001)
    for name in (b"plain", b"new\nline", b"\xff\xfe", b"-rf", b"deep/er/file", b"with space"):
        assert await turn.write(name, content)
        assert await turn.read(name) == content
        assert await turn.read(name, 4_999_990, 100) == content[4_999_990:]


async def test_no_path_leads_outside(turn: Turn) -> None:
    await turn.acquire()
    await turn.run("ln -s /etc etc; ln -s ../.. up; ln -s /etc/passwd passwd")
    for path in (b"../x", b"/etc/passwd", b"etc/passwd", b"passwd", b"up/x", b"", b"a\0b"):
        with pytest.raises(InvalidArgument):
            await turn.read(path)
        with pytest.raises(InvalidArgument):
            await turn.write(path, b"")


@pytest.mark.parametrize("flaw", ["missing", "forged", "expired"])
async def test_a_turn_token_is_needed(service: ToolSandbox, turn: Turn, flaw: str) -> None:
    signer = new_signer() if flaw == "forged" else service.signer
    turn.token = "" if flaw == "missing" else signer.sign(new_identity(expires_in=-5))
    with pytest.raises(Unauthenticated):
        await turn.acquire()


async def test_only_runners_may_call(service: ToolSandbox) -> None:
    async with service.peer("gateway") as peer:
        with pytest.raises(PermissionDenied):
            await Turn(peer, service.signer, new_identity()).acquire()


async def test_untrusted_turns_need_isolation(service: ToolSandbox, peer: Peer) -> None:
    turn = Turn(peer, service.signer, new_identity(trust="untrusted"))
    if service.backend == "local":
        with pytest.raises(PermissionDenied):
            await turn.acquire()
    else:
        assert (await turn.acquire()).instance


async def test_a_command_is_one_span_below_its_call(service: ToolSandbox, turn: Turn) -> None:
    await turn.acquire()
    call_id = new_call()
    context = trace.SpanContext(0x1234_5678, 0x99, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        ran = await turn.run("sleep 0.2", call_id)
        await turn.attach(call_id)

    def spans() -> list[dict[str, object]]:
        if not service.spans.exists():
            return []
        lines = [json.loads(line) for line in service.spans.read_text().splitlines()]
        found = [line for line in lines if line["trace_id"] == format(0x1234_5678, "032x")]
        return found if len(found) >= 3 else []

    found = await eventually(spans, "the spans are written")
    [execution] = [span for span in found if span["name"] == "sandboxd exec"]
    [call] = [span for span in found if str(span["name"]).endswith("/Exec")]
    assert execution["parent_id"] == call["span_id"]
    assert execution["start"] == ran.exited.started_unix_nanos
    assert execution["end"] == ran.exited.ended_unix_nanos
    attributes = execution["attributes"]
    assert isinstance(attributes, dict)
    assert attributes["process.pid"] == ran.pid
    assert attributes["herma.call.id"] == call_id
    assert attributes["herma.sandbox.id"]
    assert time.time_ns() - int(str(execution["end"])) < 60e9
