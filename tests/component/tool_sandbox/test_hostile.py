"""What comes out of a sandbox is not believed, and nobody else is let in for one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.waiting import eventually

from herma.api.sandboxd.v1 import sandboxd_pb2 as pb
from herma.api.sandboxd.v1 import sandboxd_pb2_grpc
from herma.local.processes import dies_with_parent
from herma.tool_sandbox.link import DialTimeout, SandboxLink
from herma.tool_sandbox.wire import SandboxLied, event_of

DIALLER = """
import socket, sys, time
for _ in range(100):
    try:
        dialled = socket.socket(socket.AF_UNIX)
        dialled.connect(sys.argv[1])
        dialled.recv(1)
    except OSError:
        pass
    time.sleep(0.02)
"""


def outcome(**changes: object) -> pb.CommandEvent:
    now = time.time_ns()
    values: dict[str, object] = {
        "exit_code": 1,
        "pid": 7,
        "head": b"abc",
        "total_bytes": 3,
        "started_unix_nanos": now - 1000,
        "ended_unix_nanos": now,
    }
    return pb.CommandEvent(exited=pb.CommandExited(**{**values, **changes}))  # type: ignore[arg-type]


def test_a_true_outcome_is_passed_on_whole() -> None:
    said = outcome(signal=9, timed_out=True, spill_path=b".herma/output/\xff", total_bytes=1 << 40)
    heard = event_of(said).exited
    for field in pb.CommandExited.DESCRIPTOR.fields:
        assert getattr(heard, field.name) == getattr(said.exited, field.name), field.name


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_code": 256},
        {"exit_code": -2},
        {"signal": 65},
        {"signal": -1},
        {"total_bytes": 2},
        {"total_bytes": -1},
        {"head": b"x" * 600_000, "tail": b"x" * 600_000, "total_bytes": 1_200_000},
        {"pid": 0},
        {"pid": 1 << 23},
        {"spill_path": b"x" * 5000},
        {"started_unix_nanos": 0},
        {"started_unix_nanos": time.time_ns() + 10**18},
        {"ended_unix_nanos": time.time_ns() + 10**12},
        {"ended_unix_nanos": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_impossible_outcome_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(SandboxLied):
        event_of(outcome(**changes))


@pytest.mark.parametrize(
    "event",
    [
        pb.CommandEvent(),
        pb.CommandEvent(started=pb.CommandStarted(pid=-1)),
        pb.CommandEvent(started=pb.CommandStarted()),
        pb.CommandEvent(output=pb.CommandOutput(data=bytes((1 << 20) + 1))),
    ],
    ids=["nothing", "negative", "nobody", "too much"],
)
def test_an_impossible_event_is_refused(event: pb.CommandEvent) -> None:
    with pytest.raises(SandboxLied):
        event_of(event)


@pytest.fixture
async def link() -> AsyncIterator[SandboxLink]:
    # Short: the name of a unix socket has room for 107 bytes.
    with tempfile.TemporaryDirectory(prefix="hs-") as folder:
        (Path(folder) / "p").mkdir()
        link = SandboxLink(Path(folder) / "s", Path(folder) / "p")
        await link.open()
        yield link
        await link.close()


def dials(*argv: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *argv],
        env={**os.environ, **environment},
        preexec_fn=dies_with_parent(signal.SIGKILL),
    )


def socket_of(link: SandboxLink) -> str:
    return str(link._outer_path)


async def test_a_stranger_is_not_let_in(link: SandboxLink) -> None:
    stranger = dials("-c", DIALLER, socket_of(link))
    try:
        for pid, uid in ((stranger.pid + 1, os.getuid()), (stranger.pid, os.getuid() + 1), (0, 0)):
            with pytest.raises(DialTimeout):
                await link.channel(pid, uid, 0.3)
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_stranger_does_not_keep_the_right_one_out(link: SandboxLink) -> None:
    with tempfile.TemporaryDirectory(prefix="hw-") as workspace:
        stranger = dials("-c", DIALLER, socket_of(link))
        right = dials(
            "-m",
            "herma.sandboxd",
            HERMA_SANDBOXD_SOCKET=socket_of(link),
            HERMA_SANDBOXD_WORKSPACE=workspace,
        )
        try:
            channel = await link.channel(right.pid, os.getuid(), 15)
            stub = sandboxd_pb2_grpc.SandboxdServiceStub(channel)
            hello = await stub.Hello(pb.HelloRequest(secret="s"), timeout=10, wait_for_ready=True)
            assert hello.pid == right.pid
        finally:
            for process in (stranger, right):
                process.kill()
                process.wait()


async def test_one_that_says_nonsense_breaks_its_own_link_alone(link: SandboxLink) -> None:
    nonsense = dials(
        "-c",
        "import socket,sys,time; s=socket.socket(socket.AF_UNIX); time.sleep(0.3);"
        "s.connect(sys.argv[1]); s.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n' * 100); time.sleep(0.5)",
        socket_of(link),
    )
    try:
        channel = await link.channel(nonsense.pid, os.getuid(), 10)
        stub = sandboxd_pb2_grpc.SandboxdServiceStub(channel)
        with pytest.raises(Exception, match=r"UNAVAILABLE|DEADLINE|UNKNOWN|INTERNAL"):
            await stub.Hello(pb.HelloRequest(secret="s"), timeout=3)

        async def broken() -> bool:
            await asyncio.sleep(0)
            return link.broken.is_set()

        await eventually(broken, "the link is broken")
    finally:
        nonsense.kill()
        nonsense.wait()
