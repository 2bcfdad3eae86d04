"""A platform for one measurement: `herma up` in a folder of its own, and the model server beside it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import asyncpg

from herma.common.rpc import Peer, ServiceIdentity, ServiceKeys
from herma.common.turn_token import TurnTokenSigner
from herma.local.processes import dies_with_parent
from tests.support.platform import TestPlatform

_ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def model_process() -> Iterator[tuple[str, int]]:
    """The base URL and the pid of a model server that runs for the length of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.model"],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=dies_with_parent(signal.SIGKILL),
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(15)


class Stage:
    """A platform with its defaults; use it as a context manager.

    Args:
        backend: `docker` or `local`.
        arguments: Of `herma up`.
        environment: Settings beside the defaults.
    """

    def __init__(self, backend: str, *arguments: str, **environment: str) -> None:
        self.backend = backend
        self._arguments = arguments
        self._environment = environment
        self._model = model_process()
        self.model_url = ""
        self.model_pid = 0
        self.platform: TestPlatform

    def __enter__(self) -> Stage:
        self.model_url, self.model_pid = self._model.__enter__()
        self.platform = TestPlatform(
            self.backend,
            {
                "HERMA_MODEL_BASE_URL": self.model_url,
                "HERMA_MODEL": "scripted",
                "HERMA_MODEL_API_KEY": "none",
                **self._environment,
            },
        )
        try:
            self.platform.up(*self._arguments)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.platform.close()
        self._model.__exit__(None, None, None)

    @property
    def url(self) -> str:
        """Of the HTTP API."""
        return str(self.platform.up_file["http"])

    @property
    def key(self) -> str:
        """The operator's API key."""
        return self.platform.admin_key

    @property
    def pids(self) -> dict[str, int]:
        """Of the services and the broker, by name; PostgreSQL is none of them."""
        services = self.platform.up_file["services"]
        return {s["name"]: int(s["pid"]) for s in services if s["name"] != "postgres"}

    @property
    def postgres_pid(self) -> int:
        """Of PostgreSQL's first process."""
        return self.platform.pid("postgres")

    def address(self, name: str) -> str:
        """Where a service serves gRPC."""
        return next(str(s["address"]) for s in self.platform.up_file["services"] if s["name"] == name)

    @property
    def secrets(self) -> dict[str, Any]:
        """The installation's own."""
        found: dict[str, Any] = json.loads((self.platform.data / "secrets.json").read_text())
        return found

    def database_url(self, database: str = "postgres") -> str:
        """The superuser's URL of a database on the platform's server."""
        password = self.secrets["database"]["superuser"]
        return f"postgresql://postgres:{password}@{self.address('postgres')}/{database}"

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """A superuser's connection; the caller closes it."""
        return await asyncpg.connect(self.database_url())

    def peer(self, callee: str, caller: str = "agent-runner") -> Peer:
        """A service as another service calls it."""
        keys = ServiceKeys({f"{caller}>{callee}": self.secrets["service_keys"][f"{caller}>{callee}"]})
        return Peer(callee, self.address(callee), ServiceIdentity(caller, keys))

    def signer(self) -> TurnTokenSigner:
        """Signs turn tokens as this platform's session-authority does."""
        return TurnTokenSigner(self.secrets["turn_token_key"].encode())

    def spans(self) -> list[dict[str, Any]]:
        """All finished spans that were written, the file that was moved aside included."""
        found = []
        for name in ("spans.jsonl.1", "spans.jsonl"):
            path = self.platform.data / name
            if path.exists():
                found += [json.loads(line) for line in path.read_text().splitlines()]
        return found
