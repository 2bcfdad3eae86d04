"""`true` in a running sandbox, as a runner asks for it, beside `docker exec`."""

from __future__ import annotations

import subprocess
import time
import uuid

import docker

from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Beside, Result, not_measured
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.benchmarks.target import Target
from tests.component.tool_sandbox.service import Turn, new_identity
from tests.support.platform import docker_answers

_WHAT = "Exec of `true` in a running sandbox"
_TARGET = "p50 ≤ 3 ms; ≥ 15 × faster than `docker exec`"


async def measure(bench: Bench) -> list[Result]:
    """Execs, and between them `docker exec` in the same container."""
    if not docker_answers():
        return [not_measured(_WHAT, _TARGET, "no Docker engine answers")]
    ours: list[float] = []
    command: list[float] = []
    interface: list[float] = []
    with Stage("docker") as stage:
        async with stage.peer("tool-sandbox") as peer:
            turn = Turn(peer, stage.signer(), new_identity())
            await turn.acquire()
            container = stage.platform.container_of(str(turn.identity.session_id))
            engine = docker.from_env()
            for number in range(bench.count(60, 10) + 2):
                batch = [await _ours(turn) for _ in range(10)]
                if number >= 2:  # the first ones warm up
                    ours += batch
                    command.append(_command(container))
                    interface.append(_interface(engine, container))
            engine.close()
    over_interface = Samples.of(interface)
    return [
        Result(
            _WHAT,
            "ms",
            Samples.of(ours),
            (Target("p50", 3, "ms"),),
            (
                Beside("`docker exec`", Samples.of(command), 15, times_faster=True),
                Beside("exec over the engine's API", over_interface, times_faster=True),
            ),
            "tool-sandbox's `Exec` over gRPC with a turn's token, from the call to the"
            " command's exit as a"
            " runner sees it. `docker exec CONTAINER true` runs in the same container between them, as a"
            " command and, without the command's own start, over the engine's API.",
        )
    ]


async def _ours(turn: Turn) -> float:
    began = time.monotonic_ns()
    ran = await turn.run("true", str(uuid.uuid4()))
    elapsed = (time.monotonic_ns() - began) / 1e6
    assert ran.exited.exit_code == 0
    assert not ran.never_seen
    return elapsed


def _command(container: str) -> float:
    began = time.monotonic_ns()
    subprocess.run(["docker", "exec", container, "true"], check=True, capture_output=True)
    return (time.monotonic_ns() - began) / 1e6


def _interface(engine: docker.DockerClient, container: str) -> float:
    began = time.monotonic_ns()
    made = engine.api.exec_create(container, ["true"])
    engine.api.exec_start(made["Id"])
    return (time.monotonic_ns() - began) / 1e6
