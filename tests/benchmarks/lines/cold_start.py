"""A session's first command, its container not yet made, beside bare `docker create` and `start`."""

from __future__ import annotations

import time
import uuid

import docker
from docker.types import Mount

from tests.benchmarks.bench import Bench
from tests.benchmarks.result import Beside, Result, not_measured
from tests.benchmarks.samples import Samples
from tests.benchmarks.stage import Stage
from tests.component.tool_sandbox.service import IMAGE, Turn, new_identity
from tests.support.platform import docker_answers, remove_objects

_COLD = "Cold sandbox, claim to first command done"


async def measure(bench: Bench) -> list[Result]:
    """Cold starts, and between them bare containers with the same hardening."""
    warm = not_measured(
        "Warm sandbox, claim to first command done",
        "p50 ≤ 6 ms; p95 ≤ 15 ms",
        "there is no pool of warm sandboxes yet",
    )
    if not docker_answers():
        return [
            warm,
            not_measured(_COLD, "≤ 1.9 × `docker create` + `start`", "no Docker engine answers"),
        ]
    ours: list[float] = []
    bare: list[float] = []
    with Stage("docker") as stage:
        engine = docker.from_env()
        async with stage.peer("tool-sandbox") as peer:
            for number in range(bench.count(20, 5) + 1):
                elapsed = await _ours(Turn(peer, stage.signer(), new_identity()))
                floor = _bare(engine)
                if number:  # the first one warms up
                    ours.append(elapsed)
                    bare.append(floor)
                remove_objects(stage.platform.installation)
        engine.close()
    beside = Beside("`docker create` + `start`", Samples.of(bare), 1.9)
    return [
        warm,
        Result(
            _COLD,
            "ms",
            Samples.of(ours),
            (),
            (beside,),
            "tool-sandbox's `Acquire` for a session that never had a sandbox, then `Exec` of"
            " `true` to its"
            " exit. The floor makes and starts a container of the same image with the same"
            " hardening, volume"
            " and limits over the engine's API, and waits for nothing in it.",
        ),
    ]


async def _ours(turn: Turn) -> float:
    began = time.monotonic_ns()
    await turn.acquire()
    ran = await turn.run("true")
    elapsed = (time.monotonic_ns() - began) / 1e6
    assert ran.exited.exit_code == 0
    return elapsed


def _bare(engine: docker.DockerClient) -> float:
    name = f"herma-bench-{uuid.uuid4().hex[:8]}"
    began = time.monotonic_ns()
    container = engine.containers.create(
        IMAGE,
        ["sleep", "600"],
        entrypoint="",
        name=name,
        user="10001:10001",
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        read_only=True,
        tmpfs={"/tmp": "rw,nosuid,nodev,size=268435456,mode=1777"},
        mounts=[Mount("/workspace", name, type="volume")],
        mem_limit=1 << 30,
        memswap_limit=1 << 30,
        nano_cpus=int(1e9),
        pids_limit=512,
        ipc_mode="private",
    )
    container.start()
    elapsed = (time.monotonic_ns() - began) / 1e6
    container.remove(force=True)
    engine.volumes.get(name).remove()
    return elapsed
