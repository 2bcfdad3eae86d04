"""The metadata address, which really answers in a network namespace of ours: refused, unless allowed."""

from __future__ import annotations

import json
import subprocess
import sys

# In the namespace: a server on the address, and a client that is told which networks are allowed.
_PROGRAM = """
import asyncio, fcntl, ipaddress, json, socket, struct, sys
from herma.common.errors import HermaError
from herma.common.guarded_http import AddressPolicy, GuardedClient

class Names:
    async def addresses(self, host):
        return [ipaddress.ip_address("169.254.169.254")]

async def serve(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\nConnection: close\\r\\n\\r\\nsecret")
    await writer.drain()
    writer.close()

def alias():
    # Linux's netdevice(7): the loopback goes up, and gets the address besides its own.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        address = struct.pack("16sH2s4s8x", b"lo:1", socket.AF_INET, b"", bytes([169, 254, 169, 254]))
        fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1))
        fcntl.ioctl(control, 0x8916, address)

async def main():
    alias()
    server = await asyncio.start_server(serve, "169.254.169.254", 80)
    found = {}
    for name, networks in (("public", ()), ("allowed", (ipaddress.ip_network("169.254.169.254/32"),))):
        async with GuardedClient(AddressPolicy(networks), Names(), plain_anywhere=True) as client:
            for url in sys.argv[1:]:
                try:
                    reply = await client.request("GET", url, timeout=5)
                    found[f"{name} {url}"] = reply.body.decode()
                except HermaError as error:
                    found[f"{name} {url}"] = error.reason
    server.close()
    print(json.dumps(found))

asyncio.run(main())
"""


def test_the_metadata_address_is_reached_only_when_allowed() -> None:
    urls = ["http://169.254.169.254/", "http://named.example/", "http://[::ffff:169.254.169.254]/"]
    # The namespace is gone with its only process.
    ran = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", _PROGRAM, *urls],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    assert [found[f"public {url}"] for url in urls] == ["URL_REFUSED"] * 3
    assert [found[f"allowed {url}"] for url in urls[:2]] == ["secret"] * 2
