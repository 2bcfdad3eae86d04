"""hermes-agent 0.19, the single-process agent of the same trade, with the same scripted model.

It gets a virtual environment and a home of its own, which are thrown away, and is spoken to as its users
do: through the OpenAI-compatible API server of its gateway.

Source: hermes-agent's documentation, "Messaging gateway" and "API server" (`API_SERVER_ENABLED`,
`API_SERVER_KEY`), "Configuration" (`model.provider: custom`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from herma.local.processes import dies_with_parent
from tests.support.ports import take_port
from tests.support.waiting import eventually

REQUIREMENTS = ("hermes-agent==0.19.*", "aiohttp>=3.14")
_KEY = "bench-key-of-this-run-alone"


@contextmanager
def installed(where: str) -> Iterator[Path]:
    """A virtual environment that has it.

    Args:
        where: `1` to make one that is thrown away, else the folder of one that is kept.
    """
    with tempfile.TemporaryDirectory(prefix="herma-bench-") as scratch:
        folder = Path(scratch) / "venv" if where == "1" else Path(where)
        if not (folder / "bin" / "hermes").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            pip = [str(folder / "bin" / "pip"), "install", "--quiet", *REQUIREMENTS]
            subprocess.run(pip, check=True, capture_output=True)
        yield folder


class HermesAgent:
    """Its gateway as a process; use it as an async context manager.

    Args:
        venv: Where it is installed.
        model_url: The scripted model server.
    """

    def __init__(self, venv: Path, model_url: str) -> None:
        self._binary = venv / "bin" / "hermes"
        self._home = tempfile.TemporaryDirectory(prefix="herma-bench-", ignore_cleanup_errors=True)
        self._port = take_port()
        (Path(self._home.name) / "config.yaml").write_text(
            f"model:\n  provider: custom\n  default: scripted\n  base_url: {model_url}\n  api_key: none\n"
        )
        self._http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self._port}",
            headers={"Authorization": f"Bearer {_KEY}"},
            timeout=120,
        )
        self._process: subprocess.Popen[bytes]

    async def __aenter__(self) -> HermesAgent:
        self._process = subprocess.Popen(
            [str(self._binary), "gateway", "run"],
            env={
                "PATH": os.environ["PATH"],
                "HOME": self._home.name,
                "HERMES_HOME": self._home.name,
                "API_SERVER_ENABLED": "true",
                "API_SERVER_PORT": str(self._port),
                "API_SERVER_KEY": _KEY,
            },
            cwd=self._home.name,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        )
        await eventually(self._answers, "hermes-agent serves", 120)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._http.aclose()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._home.cleanup()

    async def turn(self, number: int) -> float:
        """One turn to its answer, in milliseconds."""
        body = {
            "model": "hermes-agent",
            "messages": [{"role": "user", "content": f"Say something, {number}."}],
        }
        began = time.monotonic_ns()
        response = await self._http.post("/v1/chat/completions", json=body)
        elapsed = (time.monotonic_ns() - began) / 1e6
        assert response.status_code == 200, response.text
        assert response.json()["choices"][0]["message"]["content"], response.text
        return elapsed

    async def rate(self, turns: int, at_once: int) -> float:
        """Turns per second, with so many at once."""
        numbers = iter(range(turns))

        async def work() -> None:
            for number in numbers:
                await self.turn(number)

        began = time.monotonic()
        await asyncio.gather(*(work() for _ in range(at_once)))
        return turns / (time.monotonic() - began)

    async def _answers(self) -> bool:
        assert self._process.poll() is None, "hermes-agent ended"
        try:
            return (await self._http.get("/health")).status_code == 200
        except httpx.TransportError:
            return False
