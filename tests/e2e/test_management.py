"""Sessions, keys and profiles by the command line."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import platform_for
from tests.support.chat_wire import text_of
from tests.support.model_server import ScriptedModelServer, calls, echo_results, hang, text
from tests.support.platform import TestPlatform
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer(models=("scripted", "other-model")) as server:
        server.on("PLAIN", text("plain answer"))
        server.on("LIST", calls(("terminal", {"command": "printf 'a\\nb\\nc\\n'"})), text("three lines"))
        server.on("HANG", hang(60))
        server.on("SLEEP", calls(("terminal", {"command": "sleep 7654"})), echo_results())
        server.on("TWICE", calls(("terminal", {"command": "true"})), text("never asked for"))
        yield server


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    yield from platform_for(model, "local")


@pytest.fixture
def stranger(platform: TestPlatform) -> str:
    """The key of another tenant's owner."""
    made = platform.herma("tenant", "create", f"t{uuid.uuid4().hex[:8]}", "-o", "json").stdout
    return str(json.loads(made)["key"])


def parsed(platform: TestPlatform, *arguments: str, **options: Any) -> Any:
    """What a command answers as JSON."""
    return json.loads(platform.herma(*arguments, "-o", "json", **options).stdout)


def refused(platform: TestPlatform, *arguments: str, code: int = 1, **options: Any) -> str:
    """What a command says that is refused, on standard error alone."""
    done = platform.herma(*arguments, check=False, **options)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def at_a_terminal(platform: TestPlatform, answer: str, *arguments: str) -> int:
    """Runs a command whose standard input is a terminal where somebody types; the exit code."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "herma.cli", *arguments],
            env=platform.environment,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.write(ours, answer.encode())
        _, said = process.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"[y/N]" in said, said
    return process.returncode


async def test_sessions_are_listed_page_after_page(platform: TestPlatform) -> None:
    async with platform.client() as client:
        made = [await client.session(title=f"session {number}") for number in range(205)]
    listed = parsed(platform, "session", "ls")
    assert [entry["id"] for entry in listed if entry["id"] in set(made)] == made[::-1]
    assert len(parsed(platform, "session", "ls", "--limit", "203")) == 203
    shown = platform.herma("session", "ls", "--limit", "2").stdout.splitlines()
    assert shown[0].split() == ["ID", "PROFILE", "STATE", "AGE", "TITLE"]
    assert len(shown) == 3
    assert shown[1].split()[:3] == [made[-1], "default", "idle"]
    assert shown[1].endswith("session 204")


def test_a_session_is_shown_with_calls_folded(platform: TestPlatform) -> None:
    sent = parsed(platform, "send", "LIST \x1b[31mred please")
    session_id = sent["session_id"]
    row = next(entry for entry in parsed(platform, "session", "ls") if entry["id"] == session_id)
    assert row["opening"] == "LIST \x1b[31mred please"
    folded = platform.herma("session", "show", session_id).stdout
    assert "[terminal] {" in folded
    assert "completed: [exit code 0]  (+3 lines)" in folded
    assert "three lines" in folded
    assert "\x1b" not in folded + platform.herma("session", "ls", "--limit", "1").stdout
    whole = platform.herma("session", "show", session_id, "--full").stdout
    assert whole.count("\n    b\n") == 1
    found = parsed(platform, "session", "show", session_id, "--events")
    assert [message["role"] for message in found["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [event["seq"] for event in found["events"]] == list(range(1, found["session"]["last_seq"] + 1))
    assert found["events"][-1]["kind"] == "turn.ended"
    assert "turn.ended" in platform.herma("session", "show", session_id, "--events").stdout


def test_a_session_is_removed_only_when_somebody_means_it(platform: TestPlatform, stranger: str) -> None:
    session_id = platform.herma("session", "create", "--title", "Mine").stdout.strip()
    other = platform.herma("session", "create").stdout.strip()
    assert "--yes" in refused(platform, "session", "rm", session_id, code=2, stdin=subprocess.DEVNULL)
    assert at_a_terminal(platform, "n\n", "session", "rm", session_id) == 1
    assert parsed(platform, "session", "show", session_id)["session"]["title"] == "Mine"
    platform.environment["HERMA_API_KEY"] = stranger
    try:
        assert "no such session" in refused(platform, "session", "rm", "--yes", session_id)
    finally:
        del platform.environment["HERMA_API_KEY"]
    assert parsed(platform, "session", "show", session_id)["session"]["title"] == "Mine"
    assert at_a_terminal(platform, "y\n", "session", "rm", session_id) == 0
    assert "no such session" in refused(platform, "session", "show", session_id)
    # Once more is harmless; what is nobody's does not keep the rest.
    done = platform.herma("session", "rm", "-y", str(uuid.uuid4()), session_id, other, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"deleted {session_id}", f"deleted {other}"]


@pytest.mark.parametrize("word", ["HANG", "SLEEP"])
async def test_a_session_at_work_stops_and_is_gone(
    platform: TestPlatform, model: ScriptedModelServer, word: str
) -> None:
    async with platform.client() as client:
        session = await client.session()
        admitted = await client.submit(session, word, f"key-{word}")
        seen: list[str] = []

        async def watch() -> None:
            async for event in client.events(session):
                seen.append(event["event"])

        watching = asyncio.create_task(watch())
        if word == "HANG":
            await eventually(lambda: model.matching("HANG"), "the model is asked")
            await eventually(lambda: "turn.started" in seen, "it is watched")
        else:
            await eventually(lambda: "call.running" in seen, "the command runs")
            assert running("sleep 7654")
        assert (await client.http.delete(f"/v1/sessions/{session}")).status_code == 204
        async with asyncio.timeout(20):
            await watching
        assert "turn.ended" in seen
        if word == "HANG":
            await eventually(lambda: model.matching("HANG")[0].aborted, "the connection is closed")
        else:
            await eventually(lambda: not running("sleep 7654"), "the command is killed")
        for path in (f"/v1/sessions/{session}", f"/v1/turns/{admitted['turn_id']}"):
            assert (await client.http.get(path)).status_code == 404
        assert await client.submit(session, word, f"key-{word}") == admitted
        for table in ("sessions", "turns", "messages", "calls", "events", "leases"):
            column = "id" if table == "sessions" else "session_id"
            query = f"SELECT count(*) FROM authority.{table} WHERE {column} = '{session}'"
            assert platform.sql("authority", query) == [(0,)], table
        # The runner is well.
        assert await client.answer(await client.session(), "PLAIN") == "plain answer"


async def test_a_runner_that_sleeps_through_a_deletion_wakes_and_goes_on(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    async with platform.client() as client:
        session = await client.session()
        await client.submit(session, "HANG asleep")
        await eventually(lambda: model.matching("HANG asleep"), "the model is asked")
        pid = platform.kill("agent-runner", signal.SIGSTOP)
        try:
            assert (await client.http.delete(f"/v1/sessions/{session}")).status_code == 204
            assert (await client.http.get(f"/v1/sessions/{session}")).status_code == 404
        finally:
            os.kill(pid, signal.SIGCONT)
        await eventually(lambda: model.matching("HANG asleep")[0].aborted, "the connection is closed")
        assert await client.answer(await client.session(), "PLAIN") == "plain answer"
        assert platform.pid("agent-runner") == pid


def running(command: str) -> bool:
    """Whether a process of exactly this command runs on this machine."""
    done = subprocess.run(["pgrep", "-fx", command], capture_output=True, check=False)
    return done.returncode == 0


async def test_keys_are_listed_and_revoked(platform: TestPlatform, stranger: str) -> None:
    made = parsed(platform, "key", "create", "--name", "ci", "--scope", "agent")
    (row,) = [entry for entry in parsed(platform, "key", "ls") if entry["id"] == made["id"]]
    assert (row["name"], row["scopes"], row["revoked_at"]) == ("ci", ["agent"], None)
    assert made["secret"].startswith(row["prefix"])
    shown = platform.herma("key", "ls").stdout
    assert made["secret"] not in shown
    (line,) = [text for text in shown.splitlines() if text.startswith(made["id"])]
    assert line.split()[1:5] == [row["prefix"], "ci", "agent", "active"]
    platform.environment["HERMA_API_KEY"] = stranger
    try:
        assert made["id"] not in platform.herma("key", "ls").stdout
        assert "no such key" in refused(platform, "key", "revoke", made["id"])
    finally:
        del platform.environment["HERMA_API_KEY"]
    platform.environment["HERMA_API_KEY"] = made["secret"]
    try:
        assert platform.herma("session", "ls", "--limit", "1").returncode == 0
        assert "the scope 'keys' is missing" in refused(platform, "key", "ls")
        assert "the scope 'profiles' is missing" in refused(
            platform, "profile", "apply", "-f", "-", input="name: x\n"
        )
    finally:
        del platform.environment["HERMA_API_KEY"]
    for _ in range(2):
        assert made["id"] in platform.herma("key", "revoke", made["id"]).stdout
    platform.environment["HERMA_API_KEY"] = made["secret"]
    try:

        def is_refused() -> bool:
            done = platform.herma("session", "ls", check=False)
            return done.returncode == 1 and "not valid" in done.stderr

        await eventually(is_refused, "the revoked key stops working", 30)
    finally:
        del platform.environment["HERMA_API_KEY"]
    (line,) = [text for text in platform.herma("key", "ls").stdout.splitlines() if made["id"] in text]
    assert "revoked" in line
    assert "no such key" in refused(platform, "key", "revoke", "nonsense")


def test_a_file_of_profiles_is_applied_as_far_as_it_differs(
    platform: TestPlatform, stranger: str, tmp_path: Path
) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text(
        "name: reviewer\ndescription: Reviews changes\npersona: |\n  You review.\n  You are brief.\n"
        "tools: [read_file]\n---\nname: brief\nmax_iterations: 3\n"
    )
    assert parsed(platform, "profile", "apply", "-f", str(file)) == [
        {"name": "reviewer", "version": 1, "outcome": "created"},
        {"name": "brief", "version": 1, "outcome": "created"},
    ]
    assert [row["outcome"] for row in parsed(platform, "profile", "apply", "-f", str(file))] == [
        "unchanged",
        "unchanged",
    ]
    shown = platform.herma("profile", "show", "reviewer").stdout
    again = platform.herma("profile", "apply", "-f", "-", input=shown).stdout
    assert again.split() == ["unchanged", "reviewer", "version", "1"]
    changed = shown.replace("You are brief", "You are thorough")
    assert parsed(platform, "profile", "apply", "-f", "-", input=changed)[0]["outcome"] == "updated"
    assert "You are brief" in platform.herma("profile", "show", "reviewer", "--version", "1").stdout
    as_json = json.dumps({"name": "reviewer", "version": 1, "model": "stale"})
    said = refused(platform, "profile", "apply", "-f", "-", input=as_json)
    assert "is at version 2, not 1" in said
    assert "nothing was changed" in said
    rows = {row["name"]: row for row in parsed(platform, "profile", "ls")}
    assert (rows["reviewer"]["version"], rows["brief"]["spec"]["max_iterations"]) == (2, 3)
    table = platform.herma("profile", "ls").stdout
    assert "read_file" in next(text for text in table.splitlines() if text.startswith("reviewer"))
    platform.environment["HERMA_API_KEY"] = stranger
    try:
        assert [row["name"] for row in parsed(platform, "profile", "ls")] == ["default"]
        assert "no profile 'reviewer'" in refused(platform, "profile", "show", "reviewer")
        assert "no profile 'reviewer'" in refused(platform, "send", "--profile", "reviewer", "PLAIN")
    finally:
        del platform.environment["HERMA_API_KEY"]


def test_a_bad_file_changes_nothing_and_says_where_it_is_bad(
    platform: TestPlatform, tmp_path: Path
) -> None:
    before = parsed(platform, "profile", "ls")
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("name: good\n")
    bad.write_text(
        "name: better\npersonna: typo\ntools:\n  - terminal\n  - teminal\n"
        "---\nname: No\n---\nname: good\n"
    )
    said = refused(platform, "profile", "apply", "-f", str(good), "-f", str(bad))
    for problem in (
        f"{bad}:2: personna: is not a known field",
        f"{bad}:3: tools: no tool 'teminal'; the tools are memory, read_file, terminal, write_file",
        f"{bad}:7: name: 1 to 63 of a-z",
        f"{bad}:9: 'good' is also at {good}:1",
    ):
        assert problem in said
    bad.write_text("name: better\n persona: x\n")
    assert f"{bad}:2:9: mapping values are not allowed here" in refused(
        platform, "profile", "apply", "-f", str(good), "-f", str(bad)
    )
    assert "No such file" in refused(platform, "profile", "apply", "-f", "missing.yaml", code=2)
    refused(platform, "profile", "apply", code=2)
    refused(platform, "profile", "ls", "-o", "yaml", code=2)
    assert parsed(platform, "profile", "ls") == before


def test_a_profile_chooses_model_tools_persona_and_budget(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    def ask(*options: str) -> Any:
        sent = parsed(platform, "send", f"PLAIN {uuid.uuid4()}", *options)
        assert sent["state"] == "completed"
        return sent

    def apply(**spec: Any) -> None:
        document = json.dumps({"name": "chosen", **spec})
        platform.herma("profile", "apply", "-f", "-", input=document)

    apply(persona="You are first.", model="other-model", tools=["read_file"])
    sent = ask("--profile", "chosen")
    one = model.requests[-1]
    assert (one.body["model"], one.tools) == ("other-model", ["read_file"])
    assert "You are first." in text_of(one.messages[0])
    # An existing session follows a change of its profile, and its history stays as it was.
    apply(persona="You are second.", tools=[])
    ask("--session", sent["session_id"])
    two = model.requests[-1]
    assert (two.body["model"], two.tools) == ("scripted", [])
    assert "You are second." in text_of(two.messages[0])
    assert "You are first." not in text_of(two.messages[0])
    assert "sandbox" not in text_of(two.messages[0])
    assert two.messages[1:-1] == [*one.messages[1:], {"role": "assistant", "content": "plain answer"}]
    ask("--session", sent["session_id"])
    assert model.requests[-1].messages[0] == two.messages[0]
    assert "a session has its profile" in refused(
        platform, "send", "--session", sent["session_id"], "--profile", "chosen", "PLAIN", code=2
    )
    apply(max_iterations=1)
    session = platform.herma("session", "create", "--profile", "chosen").stdout.strip()
    said = refused(platform, "send", "TWICE", "--session", session, code=3)
    assert "iteration_budget" in said
