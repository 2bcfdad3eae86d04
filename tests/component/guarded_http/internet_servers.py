"""The other machine of `internet`: name servers and web servers, on public and on internal addresses.

The name server speaks DNS over UDP (RFC 1035), for names in `example`; the web servers answer with their
own address, or with the redirect that the query asks for.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import struct
import subprocess
import sys
from urllib.parse import unquote

from tests.component.guarded_http.internet import METADATA, PRIVATE, PUBLIC

_A, _CNAME, _AAAA = 1, 5, 28
# By name, what each question for its address is answered with, the last one from then on.
_ZONE = {
    "public": [[PUBLIC]],
    "metadata": [[METADATA]],
    "private": [[PRIVATE]],
    "loopback": [["127.0.0.1"]],
    "mixed": [[PUBLIC, METADATA]],
    "many": [[PUBLIC, *(f"1.1.2.{number}" for number in range(20)), METADATA]],
    "rebound": [[PUBLIC], [METADATA]],
    "alias": [["metadata.example", METADATA]],
    "mapped": [[f"::ffff:{METADATA}"]],
    "translated": [["64:ff9b::a9fe:a9fe"]],
}


def _name(text: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".")) + b"\0"


def _record(text: str) -> tuple[int, bytes]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return _CNAME, _name(text)
    return (_A if address.version == 4 else _AAAA), address.packed


class NameServer(asyncio.DatagramProtocol):
    """Answers questions, but none for names that begin with `silent`."""

    def __init__(self) -> None:
        self._left = {name: list(answers) for name, answers in _ZONE.items()}
        self.asked: list[str] = []
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, peer: tuple[str, int]) -> None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode().lower())
            at += 1 + data[at]
        kind = struct.unpack("!H", data[at + 1 : at + 3])[0]
        question = data[12 : at + 5]
        name = labels[0]
        if name.startswith("silent"):
            return
        if kind == _A:
            self.asked.append(".".join(labels))
        left = self._left.get(name) if labels[1:] == ["example"] else None
        records = [_record(text) for text in left[0]] if left else []
        # The two questions of one look-up, for A and for AAAA, belong together.
        if left and kind == _A and len(left) > 1:
            left.pop(0)
        answers = b""
        owner = question[:-4]
        for of, content in records:
            if of in (kind, _CNAME):
                answers += owner + struct.pack("!HHIH", of, 1, 0, len(content)) + content
                owner = content if of == _CNAME else owner
        count = sum(of in (kind, _CNAME) for of, _ in records)
        flags = 0x8580 if left else 0x8583
        header = data[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0)
        self._transport.sendto(header + question + answers, peer)


async def main() -> None:
    print(json.dumps("born"), flush=True)
    sys.stdin.readline()
    for command in (
        f"address add {PRIVATE}/24 dev there",
        f"address add {PUBLIC}/32 dev lo",
        f"address add {METADATA}/32 dev lo",
        "link set lo up",
        "link set there up",
    ):
        subprocess.run(["ip", *command.split()], check=True, stdout=sys.stderr)
    connections: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here = writer.get_extra_info("sockname")[0]
        connections.append(here)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:
            writer.close()
            return
        onward = unquote(head.split()[1].partition("?")[2])
        start = f"HTTP/1.1 302 Found\r\nLocation: {onward}" if onward else "HTTP/1.1 200 OK"
        writer.write(
            f"{start}\r\nContent-Length: {len(here)}\r\nConnection: close\r\n\r\n{here}".encode()
        )
        writer.close()

    web = [await asyncio.start_server(serve, address, 80) for address in (PUBLIC, METADATA, PRIVATE)]
    loop = asyncio.get_running_loop()
    transport, names = await loop.create_datagram_endpoint(NameServer, local_addr=(PRIVATE, 53))
    print(json.dumps("configured"), flush=True)
    # Ends with the process that started it.
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps({"connections": connections, "names": names.asked}), flush=True)
        connections.clear()
        names.asked.clear()
    transport.close()
    for server in web:
        server.close()


if __name__ == "__main__":
    asyncio.run(main())
