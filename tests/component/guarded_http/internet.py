"""A network that exists for a test only: this process's machine, and one with name and web servers.

To be run in namespaces of its own (network and mounts), which end with it:

    unshare --net --mount python -m tests.component.guarded_http.internet

It speaks over its standard streams: a JSON list of requests comes in, what came of them and what the
servers saw goes out.  Not a packet leaves the two namespaces: there is no way out of them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herma.common.errors import HermaError
from herma.common.guarded_http import AddressPolicy, GuardedClient
from herma.common.logs import configure_logs

PUBLIC = "1.1.1.1"
METADATA = "169.254.169.254"
PRIVATE = "10.99.0.2"
# A public address of the machine that asks.
OWN = "1.0.0.1"


@dataclass(frozen=True)
class Asked:
    """A request.  `group` is asked for at the same time."""

    url: str
    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    redirects: int = 0
    group: int = 1


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


def configure(servers: int) -> None:
    """The machine that asks: a cable to the servers, and their name server."""
    run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(servers))
    run("ip", "address", "add", "10.99.0.1/24", "dev", "here")
    run("ip", "address", "add", f"{OWN}/32", "dev", "lo")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "set", "here", "up")
    run("ip", "route", "add", "default", "via", PRIVATE)
    for path, text in (
        ("/etc/resolv.conf", f"nameserver {PRIVATE}\noptions timeout:2 attempts:1\n"),
        ("/etc/nsswitch.conf", "hosts: dns\n"),
    ):
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write(text)
        run("mount", "--bind", file.name, path)
        # What is mounted stays.
        Path(file.name).unlink()


async def outcome(asked: Asked) -> str:
    networks = [
        tuple(ipaddress.ip_network(text) for text in texts) for texts in (asked.allowed, asked.denied)
    ]
    async with GuardedClient(AddressPolicy(*networks), plain_anywhere=True) as client:
        requests = [
            client.request(
                "GET", asked.url.replace("*", str(number)), redirects=asked.redirects, timeout=20
            )
            for number in range(asked.group)
        ]
        answers = await asyncio.gather(*requests, return_exceptions=True)
    words = set()
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, HermaError):
            raise answer
        words.add(answer.reason if isinstance(answer, HermaError) else answer.body.decode())
    return " ".join(sorted(words))


async def main() -> None:
    # To standard error.
    configure_logs("internet")
    servers = await asyncio.create_subprocess_exec(
        *("unshare", "--net", sys.executable, "-m", "tests.component.guarded_http.internet_servers"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert servers.stdin is not None
    assert servers.stdout is not None

    async def said() -> Any:
        return json.loads(await servers.stdout.readline())

    async def told(word: str) -> Any:
        servers.stdin.write(word.encode() + b"\n")
        return await said()

    assert await said() == "born"
    configure(servers.pid)
    assert await told("configure") == "configured"
    own: list[str] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own.append(OWN)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nown")
        writer.close()

    listening = await asyncio.start_server(serve, OWN, 80)
    for line in sys.stdin:
        results = await asyncio.gather(*(outcome(Asked(**asked)) for asked in json.loads(line)))
        seen = await told("tell")
        seen["connections"] += own
        own.clear()
        print(json.dumps({"results": results, **seen}), flush=True)
    listening.close()
    servers.stdin.close()
    await servers.wait()


if __name__ == "__main__":
    asyncio.run(main())
