"""`herma up` and `herma down`, without any key."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from herma.local.processes import start_time
from tests.support.platform import TestPlatform
from tests.support.waiting import eventually


@pytest.fixture
def platform() -> Iterator[TestPlatform]:
    found = TestPlatform("local")
    yield found
    found.close()


async def test_it_answers_without_a_key_and_keeps_what_it_knows(platform: TestPlatform) -> None:
    said = platform.herma("up", "--detach").stdout
    assert "rehearsal, which is not a model" in said
    assert "WARNING: no isolation" in said
    assert platform.admin_key in said
    assert (platform.data / "admin.key").stat().st_mode & 0o777 == 0o600
    names = {service["name"] for service in platform.up_file["services"]}
    assert {"gateway", "session-authority", "agent-runner", "tool-sandbox", "memory"} <= names
    assert platform.up_file["backend"] == "local"
    first = json.loads(platform.herma("send", "$ echo kept > f; echo done", "-o", "json").stdout)
    assert "done" in first["text"]
    assert platform.herma("down").stdout.strip() == "Herma is down."
    assert not (platform.data / "up.json").exists()
    platform.up()
    again = platform.herma("send", "$ cat f", "--session", first["session_id"]).stdout
    assert "kept" in again
    async with platform.client() as client:
        roles = [m["role"] for m in await client.transcript(first["session_id"])]
        assert roles == ["user", "assistant", "tool", "assistant"] * 2
    assert (platform.data / "spans.jsonl").stat().st_size > 0


async def test_ctrl_c_leaves_nothing_running(platform: TestPlatform) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "herma.cli", "up"],
        env=platform.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        await eventually(lambda: (platform.data / "up.json").exists(), "it is up", 60)
        pids = [service["pid"] for service in platform.up_file["services"]]
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Draining." in said
    assert [pid for pid in pids if start_time(pid) is not None] == []


async def test_a_killed_supervisor_takes_everything_with_it(platform: TestPlatform) -> None:
    platform.up()
    pids = [service["pid"] for service in platform.up_file["services"]]
    os.kill(platform.up_file["pid"], signal.SIGKILL)
    await eventually(
        lambda: [pid for pid in pids if start_time(pid) is not None] == [], "all are gone", 60
    )
    assert platform.herma("down").stdout.strip() == "Herma is not up here."
    platform.up()
    assert "hello" in platform.herma("send", "hello").stdout


def test_a_port_that_is_taken_is_named(platform: TestPlatform) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        platform.environment["HERMA_HTTP_PORT"] = str(port)
        done = platform.herma("up", "--detach", check=False)
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("HERMA_HTTP_PORT", "many"), ("HERMA_SANDBOX_BACKEND", "podman")]
)
def test_unusable_settings_are_named(platform: TestPlatform, name: str, value: str) -> None:
    platform.environment[name] = value
    done = platform.herma("up", "--detach", check=False)
    assert done.returncode == 2
    assert "not usable" in done.stderr


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_a_data_folder_that_cannot_be_made_is_named(platform: TestPlatform, detach: list[str]) -> None:
    taken = platform.data / "file"
    taken.touch()
    platform.environment["HERMA_DATA_DIR"] = str(taken)
    done = platform.herma("up", *detach, check=False)
    assert done.returncode == 1
    assert f"the data folder {taken} cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_in_the_background_it_keeps_the_operators_key_to_itself(platform: TestPlatform) -> None:
    platform.data = platform.data / "data"
    platform.environment["HERMA_DATA_DIR"] = str(platform.data)
    platform.up()
    assert platform.data.stat().st_mode & 0o777 == 0o700
    log = platform.data / "logs" / "up.log"
    assert platform.admin_key in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_without_a_platform_the_command_line_says_so(platform: TestPlatform) -> None:
    done = platform.herma("send", "hello", check=False)
    assert done.returncode == 1
    assert "run `herma up`" in done.stderr
