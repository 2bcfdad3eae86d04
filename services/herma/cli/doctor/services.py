"""The platform: whether its API answers, each service serves, and what their logs complain of."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from herma.cli.doctor.database import clock_finding
from herma.cli.doctor.finding import Finding, note, ok, problem
from herma.cli.doctor.scene import Scene
from herma.cli.terminal_text import one_line
from herma.common.redaction import redact
from herma.local.processes import start_time
from herma.local.services import grpc_serves, http_serves

_SECONDS = 5.0
_TAIL = 128 * 1024
_RECENT_SECONDS = 3600.0


def check_platform(scene: Scene) -> Iterator[Finding]:
    """The API, as whoever has this key sees it, and the gateway's clock."""
    if not scene.url:
        if scene.stale:
            yield note("platform", "not up: it was killed, and left up.json behind", "start it: herma up")
        else:
            yield note("platform", "not up", "start it: herma up")
        return
    if not scene.key:
        yield problem("platform", f"there is no key for {scene.url}", "set HERMA_API_KEY")
        return
    before = time.time()
    try:
        response = httpx.get(
            f"{scene.url}/v1/sessions?page_size=1",
            headers={"Authorization": f"Bearer {scene.key}"},
            timeout=_SECONDS,
        )
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        yield problem(
            "platform",
            f"{one_line(scene.url, 120)} does not answer ({type(error).__name__})",
            "check HERMA_URL and the gateway"
            if scene.remote
            else "see logs/gateway.log; herma up restarts it",
        )
        return
    yield _answered(scene, response)
    if said := response.headers.get("date"):
        yield from _clock(said, before, time.time())


def _answered(scene: Scene, response: httpx.Response) -> Finding:
    place = one_line(scene.url, 120)
    if response.status_code in (401, 403):
        return problem("platform", f"{place} does not accept the key", "set HERMA_API_KEY to a valid key")
    if response.status_code != 200:
        return problem(
            "platform",
            f"{place} answers HTTP {response.status_code}",
            "is HERMA_URL a Herma gateway? Else see the findings on services and database",
        )
    backend = f"; sandboxes: {scene.up['backend']}" if scene.up else ""
    return ok("platform", f"{place} answers and takes the key{backend}")


def _clock(said: str, before: float, after: float) -> Iterator[Finding]:
    try:
        there = parsedate_to_datetime(said).timestamp() + 0.5  # HTTP dates have whole seconds
    except (ValueError, TypeError):
        return
    finding = clock_finding(
        "clock", "the gateway's clock", there - (before + after) / 2, 2.0 + after - before
    )
    if finding.level != "ok":
        yield finding


def check_services(scene: Scene) -> Iterator[Finding]:
    """Every service of `up.json`, all asked at once."""
    if scene.up is None:
        return
    serving = asyncio.run(_ask_all(scene.services))
    for service, state in zip(scene.services, serving, strict=True):
        if not state:
            yield ok(service["name"], f"serves at {service['address']} (pid {service['pid']})")
        else:
            yield problem(
                service["name"],
                f"{state} at {service['address']}",
                f"see {scene.settings.data_dir / 'logs' / (service['name'] + '.log')}; "
                "`herma up` restarts what died, stop what hangs",
            )


async def _ask_all(services: list[Mapping[str, Any]]) -> list[str]:
    return await asyncio.gather(*(_ask(service) for service in services))


async def _ask(service: Mapping[str, Any]) -> str:
    """What is wrong with a service; empty when it serves."""
    if not service["pid"] or start_time(service["pid"]) is None:
        return "its process is gone"
    name, address = str(service["name"]), str(service["address"])
    try:
        async with asyncio.timeout(_SECONDS):
            if name.startswith("gateway"):
                serves = await http_serves(f"http://{address}/readyz")
            elif name == "local-model":
                serves = await http_serves(f"http://{address}/health")
            elif name == "postgres":
                serves = await _listens(address)
            else:
                serves = await grpc_serves(address)
    except TimeoutError:
        serves = False
    return "" if serves else "does not serve"


async def _listens(address: str) -> bool:
    """Whether a PostgreSQL is there: who gives no password is refused, and that is an answer."""
    host, _, port = address.rpartition(":")
    try:
        connection = await asyncpg.connect(
            host=host, port=int(port), user="herma_doctor", password="", database="postgres", timeout=3
        )
    except asyncpg.PostgresError:
        return True
    except (OSError, TimeoutError, ValueError, asyncpg.InterfaceError):
        return False
    connection.terminate()
    return True


def check_logs(scene: Scene) -> Iterator[Finding]:
    """Errors of the last hour in the ends of the logs."""
    folder = scene.settings.data_dir / "logs"
    if scene.remote or not folder.is_dir():
        return
    since = time.time() - _RECENT_SECONDS
    clean = True
    for path in sorted(folder.glob("*.log")):
        errors = [entry for entry in _entries(path) if _is_recent_error(entry, since)]
        if errors:
            clean = False
            newest = redact(str(errors[-1].get("event", "")))
            yield note(
                "logs",
                f"{path.name}: {len(errors)} error(s) within the hour, newest: {one_line(newest, 100)}",
                f"see {path}",
            )
    if clean:
        yield ok("logs", "no errors within the hour")


def _entries(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            lines = file.read(_TAIL).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _is_recent_error(entry: Mapping[str, Any], since: float) -> bool:
    if entry.get("level") not in ("error", "critical"):
        return False
    try:
        at = datetime.fromisoformat(str(entry.get("timestamp")))
    except ValueError:
        return False
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() >= since
