"""The first process of tool-sandbox's container: starts the service and its broker, each as its own user.

Only the broker may speak to the container engine.  In one container that takes two users: the broker gets
the group of the engine's socket, the service does not.  Both users are the image's.  This process starts
as root, for nothing but to hand over two folders and to start the two under other users.  Then it gives
root up for good: it waits as the service's effective and the broker's real user, so that it can signal
both, without any capability.  From then on nothing in the container runs as root.

Invariants: when one of the two ends, the other is stopped and so is the container; the service stops
first, since its last acts need the broker.  Standard library only: this process stays.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SERVICE = "tool-sandbox"
_BROKER = "tool-sandbox-broker"
_SERVICE_USER = "herma-sandbox"
_BROKER_USER = "herma-broker"
_SOCKET = "/var/run/docker.sock"
# Beyond the drain: closing connections, removing sandboxes.
_SLACK_SECONDS = 8.0
_WAKING = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class StartRefused(Exception):
    """The container is not set up so that the broker alone could use the engine."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the image."""

    uid: int
    gid: int

    @classmethod
    def named(cls, name: str) -> Account:
        """The user with this name.

        Raises:
            StartRefused: when there is none.
        """
        try:
            entry = pwd.getpwnam(name)
        except KeyError as error:
            raise StartRefused(f"this image has no user {name}") from error
        return cls(entry.pw_uid, entry.pw_gid)


def engine_groups(environment: Mapping[str, str]) -> list[int]:
    """The groups that the broker needs to open the engine's socket.

    Raises:
        StartRefused: when there is no socket, when no group may use it, or when everybody may.
    """
    host = environment.get("DOCKER_HOST", "") or f"unix://{_SOCKET}"
    if not host.startswith("unix://"):
        return []  # an engine on the network, which asks for certificates
    path = Path(host.removeprefix("unix://"))
    try:
        found = path.stat()
    except OSError as error:
        raise StartRefused(f"the engine's socket {path} is not there: {error.strerror}") from error
    if not stat.S_ISSOCK(found.st_mode):
        raise StartRefused(f"{path} is no socket: does an engine run on the host?")
    if found.st_mode & stat.S_IWOTH:
        raise StartRefused(f"everybody may use {path}; let only a group use it (chmod o= on the host)")
    if not found.st_mode & stat.S_IWGRP:
        raise StartRefused(f"no group may use {path}; give it one (chgrp docker, chmod g=rw on the host)")
    return [found.st_gid]


def prepare_folders(environment: Mapping[str, str], service: Account, broker: Account) -> None:
    """Hands the sandboxes' sockets to the service, and lets it, and nobody else, come to the broker's.

    Raises:
        StartRefused: when a folder is not there.
    """
    sockets = Path(environment.get("HERMA_SANDBOX_SOCKET_DIR", ""))
    meeting = Path(environment.get("HERMA_BROKER_SOCKET", "")).parent
    for name, folder in (("HERMA_SANDBOX_SOCKET_DIR", sockets), ("HERMA_BROKER_SOCKET", meeting)):
        if not folder.is_absolute() or not folder.is_dir():
            raise StartRefused(f"the folder of {name} is not there")
    os.chown(sockets, service.uid, service.gid)
    if meeting.stat().st_uid != broker.uid:
        # What is made in it gets its group, the service's.
        meeting.chmod(0o2750)
        os.chown(meeting, broker.uid, service.gid)


def environment_of(service: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What a process of the two may know: not the other's secrets, nor the way to what is the other's."""
    foreign = "HERMA_DATABASE_" if service == _BROKER else "DOCKER_"
    kept = {name: value for name, value in environment.items() if not name.startswith(foreign)}
    try:
        keys = json.loads(environment.get("HERMA_SERVICE_KEYS") or "{}")
        own = {pair: key for pair, key in keys.items() if service in pair.split(">")}
    except (ValueError, AttributeError) as error:
        raise StartRefused("HERMA_SERVICE_KEYS is no JSON object") from error
    return kept | {"HERMA_SERVICE_KEYS": json.dumps(own)}


def start(
    module: str, environment: dict[str, str], account: Account, groups: list[int]
) -> subprocess.Popen[bytes]:
    """Starts a module as a user."""
    return subprocess.Popen(
        [sys.executable, "-m", module],
        env=environment,
        user=account.uid,
        group=account.gid,
        extra_groups=groups,
        stdin=subprocess.DEVNULL,
    )


def become_bystander(service: Account, broker: Account) -> None:
    """Gives up root for good, keeping the right to signal the two."""
    os.setgroups([])
    os.setresgid(service.gid, service.gid, service.gid)
    os.setresuid(broker.uid, service.uid, service.uid)


def watch(service: subprocess.Popen[bytes], broker: subprocess.Popen[bytes], drain: float) -> int:
    """Waits for a signal or the end of either, then stops what is left; the exit status."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAKING)
    status = 0
    # One that ended before the signals were held back is seen by the first look.
    while service.poll() is None and broker.poll() is None:
        if signal.sigwait(_WAKING) in (signal.SIGTERM, signal.SIGINT):
            break
    else:
        status = 1
        ended = _SERVICE if service.poll() is not None else _BROKER
        print(f"{ended} ended; stopping its container", file=sys.stderr, flush=True)  # noqa: T201
    until = time.monotonic() + drain + _SLACK_SECONDS
    for process in (service, broker):
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return status


def main() -> None:
    """Runs the container."""
    try:
        if os.getuid() != 0:
            raise StartRefused("the two are started under users of their own, which takes root")
        service, broker = Account.named(_SERVICE_USER), Account.named(_BROKER_USER)
        groups = engine_groups(os.environ)
        prepare_folders(os.environ, service, broker)
        serving = environment_of(_SERVICE, os.environ)
        broking = environment_of(_BROKER, os.environ)
        drain = float(os.environ.get("HERMA_DRAIN_SECONDS") or 20)
    except (StartRefused, OSError, ValueError) as error:
        sys.exit(f"tool-sandbox cannot start: {error}")
    processes = (
        start("herma.tool_sandbox", serving, service, []),
        start("herma.tool_sandbox.broker", broking, broker, groups),
    )
    become_bystander(service, broker)
    sys.exit(watch(*processes, drain))


if __name__ == "__main__":
    main()
