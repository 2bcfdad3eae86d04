"""The first process of tool-sandbox's container, as far as it goes without a container."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from herma.tool_sandbox.init import StartRefused, engine_groups, environment_of

_ENVIRONMENT = {
    "PATH": "/bin",
    "DOCKER_HOST": "unix:///x",
    "HERMA_DATABASE_URL": "postgresql://u:p@/d",
    "HERMA_DATABASE_DIRECT_URL": "postgresql://u:p@/d",
    "HERMA_SANDBOX_IMAGE": "i",
    "HERMA_SERVICE_KEYS": json.dumps(
        {"agent-runner>tool-sandbox": "1", "tool-sandbox>tool-sandbox-broker": "2"}
    ),
}


def engine_socket(folder: Path, mode: int) -> dict[str, str]:
    path = folder / "engine.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    path.chmod(mode)
    return {"DOCKER_HOST": f"unix://{path}"}


def test_the_broker_gets_no_database_and_only_its_own_key() -> None:
    given = environment_of("tool-sandbox-broker", _ENVIRONMENT)
    assert json.loads(given["HERMA_SERVICE_KEYS"]) == {"tool-sandbox>tool-sandbox-broker": "2"}
    assert not any("DATABASE" in name for name in given)
    assert given["DOCKER_HOST"] == "unix:///x"
    assert given["HERMA_SANDBOX_IMAGE"] == "i"


def test_the_service_is_not_told_where_the_engine_is() -> None:
    given = environment_of("tool-sandbox", _ENVIRONMENT)
    assert "DOCKER_HOST" not in given
    assert given["HERMA_DATABASE_URL"] == "postgresql://u:p@/d"
    assert len(json.loads(given["HERMA_SERVICE_KEYS"])) == 2


def test_keys_that_are_no_object_are_refused() -> None:
    for text in ("{", "[1]"):
        with pytest.raises(StartRefused, match="HERMA_SERVICE_KEYS"):
            environment_of("tool-sandbox", {"HERMA_SERVICE_KEYS": text})


def test_the_broker_s_group_is_the_socket_s(tmp_path: Path) -> None:
    environment = engine_socket(tmp_path, 0o660)
    assert engine_groups(environment) == [(tmp_path / "engine.sock").stat().st_gid]
    assert engine_groups({"DOCKER_HOST": "tcp://10.0.0.1:2376"}) == []


@pytest.mark.parametrize(("mode", "said"), [(0o666, "everybody"), (0o600, "no group")])
def test_a_socket_that_cannot_tell_the_two_apart_is_refused(tmp_path: Path, mode: int, said: str) -> None:
    with pytest.raises(StartRefused, match=said):
        engine_groups(engine_socket(tmp_path, mode))


def test_a_path_without_an_engine_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="not there"):
        engine_groups({"DOCKER_HOST": f"unix://{tmp_path}/none"})
    (tmp_path / "folder").mkdir()  # what an engine makes of a mount whose source is missing
    with pytest.raises(StartRefused, match="no socket"):
        engine_groups({"DOCKER_HOST": f"unix://{tmp_path}/folder"})


def test_outside_its_image_it_starts_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "herma.tool_sandbox.init"],
        env={**os.environ, "HERMA_SANDBOX_SOCKET_DIR": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "tool-sandbox cannot start" in done.stderr
