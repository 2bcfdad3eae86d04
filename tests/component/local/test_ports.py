"""Ports of one machine, given out to several platforms at once."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from herma.local.ports import Ports

_TAKER = """
import sys
from herma.local.ports import Ports
ports = Ports()
print(*[ports.take() for _ in range(int(sys.argv[1]))], flush=True)
sys.stdin.read()
"""


def test_platforms_that_start_at_once_get_different_ports() -> None:
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", _TAKER, "900"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    taken: list[str] = []
    for taker in takers:
        assert taker.stdout is not None
        taken += taker.stdout.readline().split()
    for taker in takers:
        taker.communicate("")
    assert len(taken) == 2700
    assert len(set(taken)) == 2700


def test_no_client_can_take_a_port_before_its_use() -> None:
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    ports = Ports()
    assert not any(int(low) <= ports.take() <= int(high) for _ in range(50))
    ports.close()


def test_a_port_in_use_is_not_given_out() -> None:
    first = Ports()
    port = first.take()
    with socket.create_server(("127.0.0.1", port)):
        first.close()
        second = Ports(range(port, port + 20))
        assert port not in {second.take() for _ in range(5)}
        second.close()


def test_a_closed_reservation_is_given_out_again() -> None:
    first = Ports()
    port = first.take()
    first.close()
    second = Ports([port])
    assert second.take() == port
    second.close()
