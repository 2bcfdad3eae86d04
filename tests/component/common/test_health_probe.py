"""What containers ask of their services, against real servers."""

from __future__ import annotations

import asyncio
import http.server
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from herma.common.health_probe import problem
from herma.common.rpc import RpcServer, ServiceIdentity, ServiceKeys


@pytest.fixture
def socket() -> Iterator[Path]:
    # Short: the name of a unix socket has room for 107 bytes.
    with tempfile.TemporaryDirectory(prefix="hp-") as folder:
        yield Path(folder) / "rpc.sock"


async def test_a_service_on_a_socket_says_whether_it_serves(socket: Path) -> None:
    address = f"unix:{socket}"
    assert "does not answer" in await asyncio.to_thread(problem, address)
    server = RpcServer(ServiceIdentity("memory", ServiceKeys({})), (), address)
    await server.start()
    try:
        assert await asyncio.to_thread(problem, address) == ""
        await server.refuse()
        assert "NOT_SERVING" in await asyncio.to_thread(problem, address)
    finally:
        await server.stop(0)


async def test_a_socket_is_for_its_user_and_group_alone(socket: Path) -> None:
    server = RpcServer(ServiceIdentity("memory", ServiceKeys({})), (), f"unix:{socket}")
    await server.start()
    try:
        assert socket.stat().st_mode & 0o777 == 0o660
    finally:
        await server.stop(0)


@pytest.mark.parametrize(("status", "said"), [(204, ""), (503, "answers 503")])
def test_an_http_service_says_it_by_its_status(status: int, said: str) -> None:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = problem(f"http://127.0.0.1:{server.server_address[1]}/readyz")
        server.shutdown()
    assert said in found
    assert bool(found) == bool(said)


def test_its_exit_status_is_the_answer(socket: Path) -> None:
    command = [sys.executable, "-m", "herma.common.health_probe"]
    done = subprocess.run(
        [*command, f"unix:{socket}"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert str(socket) in done.stderr
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 1
