"""A whole platform for one test module: `herma up` on random ports in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from herma.local.processes import start_time
from tests.support.waiting import eventually

_ROOT = Path(__file__).resolve().parents[2]


def docker_answers() -> bool:
    """Whether a Docker engine answers."""
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "version"], capture_output=True, check=False)
    return done.returncode == 0


class TestPlatform:
    """Starts, kills, stops and restarts a platform's processes."""

    __test__ = False

    def __init__(self, backend: str, environment: dict[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="herma-test-")
        self.data = Path(self._folder.name)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("HERMA_", "OPENAI_"))},
            "HERMA_DATA_DIR": str(self.data),
            "HERMA_HTTP_PORT": "0",
            "HERMA_SANDBOX_BACKEND": backend,
            **(environment or {}),
        }
        self.backend = backend

    def herma(
        self, *arguments: str, check: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command line against this platform."""
        done = subprocess.run(
            [sys.executable, "-m", "herma.cli", *arguments],
            env=self.environment,
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
            **options,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"herma {arguments} failed: {done.stdout}{done.stderr}\n{self.logs()}")
        return done

    def up(self, *arguments: str) -> None:
        """Starts it and returns when it is ready."""
        self.herma("up", "--detach", *arguments)

    def close(self) -> None:
        """Stops it and removes what it left: its folder, its containers and volumes."""
        self.herma("down", check=False)
        secrets = self.data / "secrets.json"
        if secrets.exists():
            installation = json.loads(secrets.read_text())["id"]
            if self.backend == "docker":
                remove_objects(installation)
            shutil.rmtree(Path(tempfile.gettempdir()) / f"herma-{installation}", ignore_errors=True)
        self._folder.cleanup()

    @property
    def up_file(self) -> dict[str, Any]:
        """What `up.json` says now."""
        found: dict[str, Any] = json.loads((self.data / "up.json").read_text())
        return found

    @property
    def installation(self) -> str:
        """The installation's id."""
        return str(self.up_file["installation"])

    def pid(self, name: str) -> int:
        """The pid of one process."""
        return next(int(s["pid"]) for s in self.up_file["services"] if s["name"] == name)

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Signals one process; its pid."""
        pid = self.pid(name)
        assert start_time(pid) is not None
        os.kill(pid, number)
        return pid

    @property
    def admin_key(self) -> str:
        """The operator's key."""
        return (self.data / "admin.key").read_text().strip()

    def client(self, key: str = "") -> Client:
        """An HTTP client."""
        return Client(self.up_file["http"], key or self.admin_key)

    def logs(self) -> str:
        """The ends of all logs, for a failed test."""
        parts = []
        for log in sorted((self.data / "logs").glob("*.log")):
            lines = log.read_text("utf-8", "replace").splitlines()[-25:]
            parts.append(f"--- {log.name}\n" + "\n".join(line[:800] for line in lines))
        return "\n".join(parts)

    def container_of(self, session_id: str) -> str:
        """The Docker container of a session: the one whose workspace it uses."""
        records = self.sql(
            "sandbox", f"SELECT id FROM sandbox.sandboxes WHERE session_id = '{session_id}'"
        )
        return f"herma-{self.installation}-{records[0][0]}"

    def sql(self, _schema: str, query: str) -> list[tuple[Any, ...]]:
        """Asks the database as its superuser."""
        import asyncio

        import asyncpg

        secrets = json.loads((self.data / "secrets.json").read_text())
        address = next(s["address"] for s in self.up_file["services"] if s["name"] == "postgres")

        async def ask() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(
                f"postgresql://postgres:{secrets['database']['superuser']}@{address}/postgres"
            )
            try:
                return [tuple(row) for row in await connection.fetch(query)]
            finally:
                await connection.close()

        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, ask()).result()


def remove_objects(installation: str) -> None:
    """Removes the containers and volumes of one installation, and no other's."""
    assert re.fullmatch(r"[0-9a-f]{10}", installation)
    listed = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=herma.deployment={installation}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.stdout.split():
        subprocess.run(["docker", "rm", "-f", *listed.stdout.split()], capture_output=True, check=False)
    volumes = subprocess.run(
        ["docker", "volume", "ls", "-q", "--filter", f"name=herma-{installation}-ws-"],
        capture_output=True,
        text=True,
        check=False,
    )
    if volumes.stdout.split():
        subprocess.run(
            ["docker", "volume", "rm", *volumes.stdout.split()], capture_output=True, check=False
        )


class Client:
    """The HTTP API, as a user has it."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(30, read=60),
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.http.aclose()

    async def session(self, **body: str) -> str:
        """A new session's id."""
        response = await self.http.post("/v1/sessions", json=body)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    async def submit(self, session_id: str, content: str, key: str = "") -> dict[str, Any]:
        """Submits a message; again under its key while the platform restarts."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}

        async def attempt() -> dict[str, Any] | None:
            try:
                response = await self.http.post(
                    f"/v1/sessions/{session_id}/messages", json={"content": content}, headers=headers
                )
            except httpx.TransportError:
                return None
            if response.status_code >= 500:
                return None
            assert response.status_code == 202, response.text
            found: dict[str, Any] = response.json()
            return found

        return await eventually(attempt, "the message is admitted", 60)

    async def events(
        self, session_id: str, after: int = 0, turn_id: str = ""
    ) -> AsyncIterator[dict[str, Any]]:
        """Events as they come: `id` is None for streamed text."""
        parameters = {"turn": turn_id} if turn_id else {}
        headers = {"Last-Event-ID": str(after)} if after else {}
        async with self.http.stream(
            "GET", f"/v1/sessions/{session_id}/events", params=parameters, headers=headers
        ) as response:
            assert response.status_code == 200, (await response.aread()).decode()
            number, kind = None, ""
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    number = int(line[4:])
                elif line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    yield {"id": number, "event": kind, **json.loads(line[6:])}
                    number, kind = None, ""

    async def turn(self, turn_id: str) -> dict[str, Any]:
        """A turn."""
        response = await self.http.get(f"/v1/turns/{turn_id}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def ended(self, turn_id: str, timeout: float = 60.0) -> dict[str, Any]:
        """The turn, once it has ended."""

        async def check() -> dict[str, Any] | None:
            try:
                response = await self.http.get(f"/v1/turns/{turn_id}")
            except httpx.TransportError:
                return None
            if response.status_code != 200:
                return None
            body: dict[str, Any] = response.json()
            return body if body["ended_at"] else None

        return await eventually(check, f"turn {turn_id} ends", timeout)

    async def transcript(self, session_id: str) -> list[dict[str, Any]]:
        """All messages."""
        response = await self.http.get(f"/v1/sessions/{session_id}/messages?page_size=200")
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["items"]
        return found

    async def answer(self, session_id: str, content: str, timeout: float = 60.0) -> str:
        """The answer to a message."""
        admitted = await self.submit(session_id, content)
        turn = await self.ended(admitted["turn_id"], timeout)
        assert turn["state"] == "completed", turn
        return str((await self.transcript(session_id))[-1]["content"])
