"""The container engine, and the image of sandboxes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests

import herma
from herma.cli.doctor.finding import Finding, note, ok, problem
from herma.cli.doctor.scene import Scene

_SECONDS = 5
_BUILD = "build it: make images"


def check_engine(scene: Scene) -> Iterator[Finding]:
    """Whether an engine answers, what it can limit, and whether it has the image."""
    if scene.remote:
        yield note("engine", "the platform is elsewhere: its engine is not looked at from here")
        return
    if scene.backend == "local":
        yield note(
            "engine",
            "sandboxes are `local`: tools run as plain processes of this user, which isolates nothing",
            "for real sandboxes start a Docker engine and unset HERMA_SANDBOX_BACKEND",
        )
        return
    try:
        client = docker.from_env(timeout=_SECONDS)
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError):
        yield _absent(scene)
        return
    try:
        yield from _examine(scene, client)
    except (docker.errors.DockerException, requests.RequestException, OSError):
        yield _absent(scene)
    finally:
        client.close()


def _absent(scene: Scene) -> Finding:
    where = scene.environment.get("DOCKER_HOST", "the default socket")
    if scene.backend == "docker":
        return problem(
            "engine",
            f"no Docker engine answers at {where}, and the sandboxes need one",
            "start the engine, check DOCKER_HOST and that this user may use it",
        )
    return note(
        "engine",
        f"no Docker engine answers at {where}: `auto` falls back to `local`, which isolates nothing",
        "start an engine for real sandboxes",
    )


def _examine(scene: Scene, client: Any) -> Iterator[Finding]:
    version, info = client.version(), client.info()
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    names = sorted(option.partition("name=")[2].partition(",")[0] for option in options)
    yield ok(
        "engine",
        f"Docker {version.get('Version', '?')} answers (API {version.get('ApiVersion', '?')}, "
        f"cgroup v{info.get('CgroupVersion', '?')} by {info.get('CgroupDriver', '?')}, "
        f"security: {', '.join(names) or 'none'})",
    )
    missing = _unlimited(info)
    if missing:
        yield problem(
            "limits",
            f"the engine cannot limit {', '.join(missing)}: one sandbox can starve the others",
            "enable the cgroup controllers of the kernel (see `docker info`, WARNINGs)",
        )
    if "seccomp" not in names:
        yield problem(
            "seccomp",
            "the engine filters no system calls: the kernel is open to sandboxes",
            "use an engine and a kernel with seccomp",
        )
    yield _image(scene, client)


def _unlimited(info: Mapping[str, Any]) -> list[str]:
    wanted = {"MemoryLimit": "memory", "PidsLimit": "processes", "CpuCfsQuota": "CPU"}
    return [name for field, name in wanted.items() if info.get(field) is False]


def _image(scene: Scene, client: Any) -> Finding:
    tag = scene.settings.sandbox_image
    try:
        image = client.images.get(tag)
    except docker.errors.ImageNotFound:
        return problem(
            "image", f"the image {tag} is missing", f"{_BUILD}; or HERMA_SANDBOX_BACKEND=local"
        )
    labels = image.labels or {}
    if "herma.content" not in labels:
        return problem(
            "image", f"{tag} is no sandbox image of Herma", f"{_BUILD}; or set HERMA_SANDBOX_IMAGE"
        )
    if tag == UpToDate.TAG and (stale := UpToDate.problem()):
        return problem("image", stale, _BUILD)
    return ok("image", f"{tag} is there ({labels['herma.content'][:12]})")


class UpToDate:
    """Whether the image of a source checkout is of these sources."""

    TAG = "herma-base:dev"
    _SCRIPT = Path(herma.__file__).resolve().parents[2] / "scripts" / "build_images.py"

    @classmethod
    def problem(cls) -> str:
        """What is wrong; empty when nothing is, or when this is an installation without sources."""
        if not cls._SCRIPT.is_file():
            return ""
        try:
            done = subprocess.run(
                [sys.executable, str(cls._SCRIPT), "--check"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return (
            "" if done.returncode == 0 else f"{cls.TAG} was built from other sources than this release's"
        )
