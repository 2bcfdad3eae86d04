"""This machine: disk, versions, port, and the files of the data folder."""

from __future__ import annotations

import platform
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc

import herma
from herma.cli.doctor.finding import Finding, note, ok, problem
from herma.cli.doctor.scene import Scene

_LEAST_DISK = 2 * 1024**3
_SCARCE_DISK = 8 * 1024**3
_SECRETS = ("admin.key", "secrets.json", "up.json", "chat_history", "logs/up.log")


def check_disk(scene: Scene) -> Iterator[Finding]:
    """Room for the database, workspaces and logs."""
    if scene.remote:
        return
    folder = scene.settings.data_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / 1024**3:.1f} GiB free for {scene.settings.data_dir}"
    if free < _LEAST_DISK:
        yield problem("disk", text, "make room: below 2 GiB PostgreSQL and the sandboxes may stop")
    elif free < _SCARCE_DISK:
        yield note("disk", text, "make room soon")
    else:
        yield ok("disk", text)


def check_versions(scene: Scene) -> Iterator[Finding]:
    """What runs, and whether it is what is installed."""
    yield ok(
        "versions",
        f"herma {herma.__version__}, Python {platform.python_version()}, gRPC {grpc.__version__}",
    )
    if scene.up is not None and scene.up["version"] != herma.__version__:
        yield problem(
            "versions",
            f"the platform that runs is herma {scene.up['version']}",
            "restart it: herma down, then herma up",
        )


def check_port(scene: Scene) -> Iterator[Finding]:
    """Whether `herma up` will get its port."""
    port = scene.settings.http_port
    if scene.up is not None or scene.remote or not port:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            yield problem(
                "port",
                f"port {port} is in use by something else",
                "stop it, or set HERMA_HTTP_PORT to another (0 for any)",
            )
            return
    yield ok("port", f"{port} is free")


def check_files(scene: Scene) -> Iterator[Finding]:
    """Whether others can read the secrets of the data folder."""
    folder: Path = scene.settings.data_dir
    if scene.remote or not folder.is_dir():
        return
    for name in _SECRETS:
        path = folder / name
        try:
            mode = path.stat().st_mode & 0o777
        except OSError:
            continue
        if mode & 0o077:
            yield problem("files", f"{path} can be read by others (mode {mode:o})", f"chmod 600 {path}")
            return
    yield ok("files", "the secrets of the data folder are this user's alone")
