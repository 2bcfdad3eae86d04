"""`herma doctor`, wherever it is called: it answers, is right, says what to do, and tells no secret."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import platform_for
from tests.support.model_server import ScriptedModelServer, text
from tests.support.platform import TestPlatform
from tests.support.waiting import eventually

Found = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer, backend: str) -> Iterator[TestPlatform]:
    model.on("PLAIN", text("plain answer"))
    yield from platform_for(model, backend)


def examine(platform: TestPlatform, **environment: str) -> tuple[int, Found]:
    """The exit code, and the findings by name; of several with one name the worst."""
    before = dict(platform.environment)
    platform.environment.update(environment)
    try:
        done = platform.herma("doctor", "-o", "json", check=False)
    finally:
        platform.environment = before
    assert done.stderr == ""
    for secret in _secrets(platform):
        assert secret not in done.stdout
    worst = ("ok", "note", "problem")
    found: Found = {}
    for finding in sorted(json.loads(done.stdout), key=lambda f: worst.index(f["level"])):
        assert set(finding) == {"name", "level", "text", "fix"}
        assert finding["level"] != "problem" or finding["fix"], finding
        found[finding["name"]] = finding
    problems = [f for f in found.values() if f["level"] == "problem"]
    assert done.returncode == (1 if problems else 0), problems
    return done.returncode, found


def _secrets(platform: TestPlatform) -> list[str]:
    found = [platform.environment.get("HERMA_MODEL_API_KEY", ""), "wrong-model-key", "wrong-password"]
    if (platform.data / "admin.key").exists():
        found.append(platform.admin_key)
        kept = json.loads((platform.data / "secrets.json").read_text())
        found += [*kept["database"].values(), *kept["service_keys"].values()]
    return [secret for secret in found if secret]


def test_a_sound_platform_has_no_problems(platform: TestPlatform, backend: str) -> None:
    code, found = examine(platform)
    assert code == 0
    for name in ("database", "schema authority", "schema sandbox", "schema memory", "roles", "clock"):
        assert found[name]["level"] == "ok"
    for service in platform.up_file["services"]:
        assert found[service["name"]]["level"] == "ok"
        assert service["address"] in found[service["name"]]["text"]
    assert found["platform"]["level"] == "ok"
    assert found["provider"]["level"] == "ok"
    assert "scripted" in found["provider"]["text"]
    assert "PostgreSQL 18" in found["database"]["text"]
    assert "Python 3" in found["versions"]["text"]
    if backend == "docker":
        assert "cgroup v" in found["engine"]["text"]
        assert found["image"]["level"] == "ok"
    shown = platform.herma("doctor").stdout
    assert "no problems found" in shown
    assert "\x1b" not in shown


def test_a_key_that_the_provider_refuses(platform: TestPlatform) -> None:
    code, found = examine(platform, HERMA_MODEL_API_KEY="wrong-model-key")
    assert code == 1
    assert found["provider"]["level"] == "problem"
    assert "does not accept the key" in found["provider"]["text"]
    assert "HERMA_MODEL_API_KEY" in found["provider"]["fix"]


def test_a_model_that_is_not_there_and_a_provider_that_is_not(platform: TestPlatform) -> None:
    assert "has no model absent" in examine(platform, HERMA_MODEL="absent")[1]["provider"]["text"]
    code, found = examine(platform, HERMA_MODEL_BASE_URL="http://127.0.0.1:9/v1")
    assert code == 1
    assert "does not answer" in found["provider"]["text"]


def test_a_provider_that_never_answers_does_not_hang_it(platform: TestPlatform) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        code, found = examine(platform, HERMA_MODEL_BASE_URL=f"http://127.0.0.1:{port}/v1")
    assert code == 1
    assert "does not answer" in found["provider"]["text"]


def test_an_engine_that_is_away(platform: TestPlatform, backend: str) -> None:
    code, found = examine(platform, DOCKER_HOST="tcp://127.0.0.1:9")
    if backend == "docker":
        assert code == 1
        assert "tcp://127.0.0.1:9" in found["engine"]["text"]
        assert found["engine"]["level"] == "problem"
    else:
        assert found["engine"]["level"] == "note"


@pytest.mark.docker
def test_an_image_that_is_missing(platform: TestPlatform) -> None:
    code, found = examine(platform, HERMA_SANDBOX_IMAGE="herma-never:built")
    assert code == 1
    assert "herma-never:built is missing" in found["image"]["text"]
    assert "make images" in found["image"]["fix"]


def test_a_database_that_is_away_or_refuses(platform: TestPlatform) -> None:
    url = "postgresql://postgres:wrong-password@127.0.0.1:9/postgres"
    code, found = examine(platform, HERMA_DATABASE_URL=url)
    assert code == 1
    assert found["database"]["level"] == "problem"
    assert "127.0.0.1:9/postgres" in found["database"]["text"]
    address = next(s["address"] for s in platform.up_file["services"] if s["name"] == "postgres")
    url = f"postgresql://postgres:wrong-password@{address}/postgres"
    assert (
        "refuses the user or password" in examine(platform, HERMA_DATABASE_URL=url)[1]["database"]["text"]
    )


def test_migrations_that_are_not_applied_and_roles_that_may_too_much(platform: TestPlatform) -> None:
    platform.sql("", "DELETE FROM memory.schema_migrations WHERE version = 1")
    kept = platform.sql("", "SELECT max(version), max(checksum) FROM authority.schema_migrations")
    assert kept
    platform.sql("", "ALTER ROLE herma_memory_service BYPASSRLS")
    platform.sql("", "INSERT INTO sandbox.schema_migrations VALUES (999, 'later', 'x')")
    try:
        code, found = examine(platform)
        assert code == 1
        assert "are not applied" in found["schema memory"]["text"]
        assert "migration 999 of a newer release" in found["schema sandbox"]["text"]
        assert "herma_memory_service can bypass" in found["roles"]["text"]
        assert found["schema authority"]["level"] == "ok"
    finally:
        platform.sql("", "ALTER ROLE herma_memory_service NOBYPASSRLS")
        platform.sql("", "DELETE FROM sandbox.schema_migrations WHERE version = 999")
        platform.sql(
            "",
            "INSERT INTO memory.schema_migrations (version, name, checksum) VALUES (1, 'restored', "
            f"'{_checksum()}')",
        )
    assert examine(platform)[0] == 0


def _checksum() -> str:
    from herma.memory.app import SCHEMA

    return SCHEMA.migrations()[0].checksum


def test_a_service_that_hangs_is_named(platform: TestPlatform) -> None:
    platform.kill("memory", signal.SIGSTOP)
    try:
        code, found = examine(platform)
    finally:
        platform.kill("memory", signal.SIGCONT)
    assert code == 1
    assert found["memory"]["level"] == "problem"
    assert "does not serve" in found["memory"]["text"]
    assert found["session-authority"]["level"] == "ok"


async def test_a_gateway_that_hangs_is_named(platform: TestPlatform) -> None:
    platform.kill("gateway", signal.SIGSTOP)
    try:
        code, found = examine(platform)
    finally:
        platform.kill("gateway", signal.SIGCONT)
    assert code == 1
    assert found["platform"]["level"] == found["gateway"]["level"] == "problem"
    async with platform.client() as client:

        async def answers() -> bool:
            return (await client.http.get("/v1/sessions")).status_code == 200

        await eventually(answers, "the gateway answers again")


def test_errors_in_logs_and_readable_secrets_are_found(platform: TestPlatform) -> None:
    log = platform.data / "logs" / "memory.log"
    entry = {
        "level": "error", "timestamp": "2999-01-01T00:00:00Z", "logger": "x",
        "event": "broke with password=wrong-password \x1b[2J",
    }  # fmt: skip
    key = platform.data / "admin.key"
    before = log.read_bytes()
    with log.open("ab") as file:
        file.write((json.dumps(entry) + "\n").encode())
    key.chmod(0o644)
    try:
        code, found = examine(platform)
    finally:
        key.chmod(0o600)
        os.truncate(log, len(before))
    assert code == 1
    assert found["files"]["level"] == "problem"
    assert f"chmod 600 {key}" in found["files"]["fix"]
    done = platform.herma("doctor", check=False)
    assert "wrong-password" not in done.stdout


def test_from_elsewhere_it_looks_at_what_it_can(platform: TestPlatform, tmp_path: Path) -> None:
    url, key = platform.up_file["http"], platform.admin_key
    elsewhere = TestPlatform(
        "auto", {"HERMA_DATA_DIR": str(tmp_path), "HERMA_URL": url, "HERMA_API_KEY": key}
    )
    code, found = examine(elsewhere)
    assert code == 0
    assert "answers and takes the key" in found["platform"]["text"]
    assert found["engine"]["level"] == found["database"]["level"] == "note"
    code, found = examine(elsewhere, HERMA_API_KEY="herma_wrong000_" + "x" * 43)
    assert code == 1
    assert "does not accept the key" in found["platform"]["text"]
    code, found = examine(elsewhere, HERMA_URL="http://127.0.0.1:9")
    assert code == 1
    assert "does not answer" in found["platform"]["text"]


def test_without_a_platform_it_says_how_to_start_one(tmp_path: Path) -> None:
    nowhere = TestPlatform("local", {"HERMA_DATA_DIR": str(tmp_path / "none")})
    code, found = examine(nowhere)
    assert code == 0
    assert "rehearsal" in found["provider"]["text"]
    assert found["platform"]["text"] == "not up"
    assert "herma up" in found["platform"]["fix"]
    assert "isolates nothing" in found["engine"]["text"]
    assert not (tmp_path / "none").exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, found = examine(nowhere, HERMA_HTTP_PORT=str(taken.getsockname()[1]))
    assert code == 1
    assert "in use" in found["port"]["text"]
    # A platform that was killed left its file behind.
    (tmp_path / "none").mkdir()
    dead = subprocess.Popen(["true"])
    dead.wait()
    up = {"http": "http://127.0.0.1:9", "services": [], "backend": "local", "version": "0"}
    up |= {"pid": dead.pid, "started": 1}
    (tmp_path / "none" / "up.json").write_text(json.dumps(up))
    assert "left up.json behind" in examine(nowhere)[1]["platform"]["text"]
