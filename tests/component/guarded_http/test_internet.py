"""Real servers on public, internal and metadata addresses, real name servers, in namespaces of ours.

What is asserted is not only what the client says, but that the servers saw nobody.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict

import pytest
from tests.component.guarded_http.internet import METADATA, OWN, PRIVATE, PUBLIC, Asked

REFUSED = "URL_REFUSED"


class Internet:
    """The process in the namespaces."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.connections: list[str] = []
        self.names: list[str] = []

    def ask(self, *asked: Asked) -> list[str]:
        """Requests at the same time; `connections` and `names` are what the servers saw of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([asdict(one) for one in asked]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process in the namespaces is gone; what it said is above"
        seen = json.loads(line)
        self.connections, self.names = seen["connections"], seen["names"]
        return seen["results"]


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    for program in ("unshare", "ip", "mount"):
        if shutil.which(program) is None and shutil.which(program, path="/usr/sbin:/sbin") is None:
            pytest.fail(f"there is no `{program}`: run scripts/ensure_network_tools.sh as root")
    # Who is not root is root in a user namespace of their own, where the kernel allows that.
    identity = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    process = subprocess.Popen(
        [
            "unshare",
            *identity,
            "--net",
            "--mount",
            sys.executable,
            "-m",
            "tests.component.guarded_http.internet",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )
    with process:
        yield Internet(process)
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("host", [PUBLIC, "public.example"])
def test_what_is_public_is_reached(internet: Internet, host: str) -> None:
    assert internet.ask(Asked(f"http://{host}/")) == [PUBLIC]
    assert internet.connections == [PUBLIC]


INSIDE = [
    METADATA,
    "2852039166",
    "0xa9fea9fe",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "169.16689662",
    "169.254.43518",
    f"[::ffff:{METADATA}]",
    "[::ffff:a9fe:a9fe]",
    f"[::{METADATA}]",
    f"[64:ff9b::{METADATA}]",
    "[2002:a9fe:a9fe::]",
    f"{METADATA}.",
    "metadata.example",
    "metadata.example.",
    "alias.example",
    "mapped.example",
    "translated.example",
    "mixed.example",
    "many.example",
    "private.example",
    "loopback.example",
    PRIVATE,
    "127.0.0.1",
    "0.0.0.0",
    "10.99.0.1",
]


def test_nothing_inside_is_reached_however_it_is_spelled(internet: Internet) -> None:
    results = internet.ask(*(Asked(f"http://{host}/") for host in INSIDE))
    assert dict(zip(INSIDE, results, strict=True)) == dict.fromkeys(INSIDE, REFUSED)
    assert internet.connections == []


def test_what_the_operator_allows_is_reached(internet: Internet) -> None:
    hosts = [METADATA, f"[::ffff:{METADATA}]", "metadata.example", "alias.example", "mapped.example"]
    allowed = (f"{METADATA}/32",)
    assert internet.ask(*(Asked(f"http://{host}/", allowed) for host in hosts)) == [METADATA] * 5
    assert internet.connections == [METADATA] * 5
    # That network, and no other.
    assert internet.ask(Asked("http://private.example/", allowed)) == [REFUSED]
    # What is denied is denied, whatever is allowed.
    assert internet.ask(Asked(f"http://{METADATA}/", ("0.0.0.0/0",), allowed)) == [REFUSED]
    assert internet.ask(Asked("http://public.example/", (), (f"{PUBLIC}/32",))) == [REFUSED]
    assert internet.connections == []


def test_a_name_that_changes_between_check_and_use_is_used_as_checked(internet: Internet) -> None:
    # Its first look-up is answered with a public address, each later one with the metadata address.
    assert internet.ask(Asked("http://rebound.example/")) == [PUBLIC]
    assert (internet.connections, internet.names) == ([PUBLIC], ["rebound.example"])
    assert internet.ask(Asked("http://rebound.example/")) == [REFUSED]
    assert (internet.connections, internet.names) == ([], ["rebound.example"])


@pytest.mark.parametrize(
    "location",
    [
        f"http://{METADATA}/latest/meta-data/",
        f"//{METADATA}/",
        f"//user@{METADATA}/",
        "http://2852039166/",
        f"http://[::ffff:{METADATA}]/",
        "http://metadata.example/",
        "http://mixed.example/",
        "file:///etc/passwd",
        "gopher://169.254.169.254:80/_GET",
    ],
)
def test_a_redirect_does_not_lead_inside(internet: Internet, location: str) -> None:
    assert internet.ask(Asked(f"http://public.example/?{location}", redirects=5)) == [REFUSED]
    assert internet.connections == [PUBLIC]


def test_a_redirect_leads_on_to_what_may_be_reached(internet: Internet) -> None:
    asked = Asked(f"http://public.example/?http://{METADATA}/", (f"{METADATA}/32",), redirects=5)
    assert internet.ask(asked) == [METADATA]
    assert internet.connections == [PUBLIC, METADATA]


def test_this_machines_own_public_address_is_not_reached(internet: Internet) -> None:
    assert internet.ask(Asked(f"http://{OWN}/")) == [REFUSED]
    assert internet.connections == []
    assert internet.ask(Asked(f"http://{OWN}/", (f"{OWN}/32",))) == ["own"]
    assert internet.connections == [OWN]


def test_inside_and_nowhere_look_alike(internet: Internet) -> None:
    hosts = ["nowhere.example", "private.example", "metadata.example"]
    assert internet.ask(*(Asked(f"http://{host}/") for host in hosts)) == [REFUSED] * 3
    assert internet.connections == []


def test_silent_name_servers_do_not_hold_up_other_names(internet: Internet) -> None:
    # More look-ups than an event loop's own pool has threads.
    results = internet.ask(
        Asked("http://silent*.example/", group=40), Asked("http://public.example/", group=3)
    )
    assert results[1] == PUBLIC
    assert results[0] in ("URL_UNREACHABLE", "PEER_TIMEOUT", "PEER_TIMEOUT URL_UNREACHABLE")
    assert internet.connections == [PUBLIC] * 3
