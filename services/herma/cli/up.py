"""`herma up` and `herma down`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from herma.cli.client import ApiClient
from herma.cli.send import send
from herma.common.logs import configure_logs
from herma.local.installation import Installation, make_folder
from herma.local.model_route import ModelChoice, choose_route
from herma.local.platform import Platform
from herma.local.ports import Ports
from herma.local.processes import is_alive
from herma.local.settings import UpSettings
from herma.local.up_file import UpFile

_READY_SECONDS = 120.0


def run_up(
    settings: UpSettings,
    say: Callable[[str], None],
    choice: ModelChoice,
    *,
    authorities: int,
    runners: int,
    gateways: int,
) -> int:
    """Runs the platform until Ctrl-C or SIGTERM; the exit code."""
    installation = Installation(settings.data_dir)
    configure_logs("up", os.environ.get("HERMA_LOG_LEVEL", "WARNING"))
    ports = Ports()
    try:
        platform = Platform(
            installation,
            settings,
            say,
            choose_route(choice, installation, ports),
            ports,
            authorities=authorities,
            runners=runners,
            gateways=gateways,
        )
        return asyncio.run(_run(platform, installation, say))
    finally:
        installation.close()


async def _run(platform: Platform, installation: Installation, say: Callable[[str], None]) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    work = asyncio.create_task(_bring_up(platform, installation, say))
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            await stop
        say("Draining.")
        return 0
    finally:
        work.cancel()
        stop.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)
        await platform.stop()


async def _bring_up(platform: Platform, installation: Installation, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    await platform.start()
    key = installation.operator_key()
    reply = await asyncio.to_thread(send, ApiClient(platform.url, key), "Say hello.")
    if reply.state == "completed":
        say(f"The first turn went through all five services; the answer:\n\n{reply.text}\n")
    else:
        # A model that cannot be reached now must not keep the platform down.
        say(f"WARNING: the first turn ended as {reply.exit_reason}. {reply.error}\n")
    say(f"Provider: {platform.model_line}")
    say(f"Sandboxes: {platform.backend}")
    say(f"API:       {platform.url}")
    say(f"Key:       {key}")
    say(f"Ready in {time.monotonic() - began:.1f} s. Ctrl-C drains and stops.")
    platform.announce()


def run_detached(settings: UpSettings, arguments: list[str], say: Callable[[str], None]) -> int:
    """Starts `herma up` in the background and returns when it is ready; the exit code."""
    folder = settings.data_dir.absolute()
    make_folder(folder)
    log = folder / "logs" / "up.log"
    if UpFile.of(folder).read_live() is not None:
        say(f"Herma is up already on {folder}.")
        return 1
    # It names the operator's key, also where the folder was made by somebody who lets others in.
    log.unlink(missing_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "herma.cli", "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        if child.poll() is not None:
            say(log.read_text("utf-8", "replace"))
            return child.returncode or 1
        up = UpFile.of(folder).read_live()
        if up is not None and up["pid"] == child.pid:
            say(log.read_text("utf-8", "replace"))
            return 0
        time.sleep(0.05)  # the other process says nothing but by its file
    child.terminate()
    say(f"Herma did not become ready in {_READY_SECONDS:.0f} s; see {log}.")
    return 1


def run_down(folder: Path, say: Callable[[str], None]) -> int:
    """Drains and stops the platform of a data folder; the exit code."""
    up = UpFile.of(folder.absolute()).read_live()
    if up is None:
        say("Herma is not up here.")
        return 0
    os.kill(up["pid"], signal.SIGTERM)
    until = time.monotonic() + 90
    while is_alive(up["pid"], up["started"]):
        if time.monotonic() > until:
            say("Herma does not stop; see its logs.")
            return 1
        time.sleep(0.05)  # no child of ours: there is nothing to wait on
    say("Herma is down.")
    return 0
