"""The command line as a person has it: the real `herma` in a pseudo-terminal, and in pipes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import platform_for
from tests.support.model_server import (
    ScriptedModelServer,
    calls,
    cut,
    echo_results,
    fault_status,
    first,
    hang,
    slow,
    text,
)
from tests.support.platform import TestPlatform
from tests.support.terminal import Terminal
from tests.support.waiting import eventually

HERMA = str(Path(sys.executable).parent / "herma")

# What a hostile model or tool sends: a window title, the clipboard, a cleared screen, reversed text; also
# as Markdown's character references, which become control characters only when they are parsed.
_EVIL = (
    "before \x1b]0;pwned-title\x07 \x1b]52;c;cHduZWQ=\x07 \x1b[2J \x9b2J \u202egnp.exe "
    "&#27;]0;pwned-reference&#7; &#x9b;2J &#x202e;reversed [link](http://x/&#27;]0;pwned-link&#7;) after"
)
_ENDLESS = "word " * 600


def _long() -> str:
    parts = [f"## Part {number}\n\nParagraph {number} with words.\n" for number in range(1, 61)]
    return "\n".join(
        [*parts, "```python", *(f"line_{n} = {n}" for n in range(1, 61)), "```", "", "THE-END"]
    )


def _script(model: ScriptedModelServer) -> None:
    def run(command: str) -> Any:
        return calls(("terminal", {"command": command}))

    model.on("ENDLESS", slow(_ENDLESS, 0.1))
    model.on("HANG", hang())
    model.on(
        "EVIL-TOOL", run(r"printf '\033]0;pwned-title\007\033[2J \342\200\256reversed\n'"), echo_results()
    )
    model.on("EVIL", text(_EVIL))
    model.on("LIST", run("seq 101 140"), text("**listed** all"))
    model.on("LONG", text(_long(), chunks=80, per_chunk=0.01))
    model.on(
        "CJK",
        text("# 見出し\n\n" + "漢字かな交じり文です。" * 20 + "\n\nおわり", chunks=20, per_chunk=0.02),
    )
    model.on("CUT", first([cut()], text("whole answer")))
    model.on("DENIED", fault_status(400))
    model.on("SLEEP", run("sleep 120"), text("slept"))
    model.on("KILLED", slow("one two three four five six seven eight nine ten " * 4 + "FINISHED", 0.1))
    model.on("PLAIN", text("plain answer"))
    model.on("NAME", text("you said it"))


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer, backend: str) -> Iterator[TestPlatform]:
    _script(model)
    yield from platform_for(model, backend)


def chat(platform: TestPlatform, *arguments: str, columns: int = 100, **environment: str) -> Terminal:
    """`herma chat` in a terminal."""
    return Terminal([HERMA, "chat", *arguments], {**platform.environment, **environment}, columns)


async def at_prompt(terminal: Terminal, after: int = 0) -> int:
    """Waits for the prompt; the mark after it."""
    await terminal.shows("\n>", after)
    return terminal.mark()


async def newest_session(platform: TestPlatform) -> str:
    async with platform.client() as client:
        return str((await client.http.get("/v1/sessions?page_size=1")).json()["items"][0]["id"])


async def last_turn(platform: TestPlatform, session_id: str) -> dict[str, Any]:
    async with platform.client() as client:
        return await client.turn((await client.transcript(session_id))[-1]["turn_id"])


async def test_text_is_seen_before_the_turn_ends_and_ctrl_c_interrupts_it(platform: TestPlatform) -> None:
    with chat(platform) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("ENDLESS\r")
        await terminal.shows("word word", mark)
        session = await newest_session(platform)
        assert (await last_turn(platform, session))["state"] == "running"
        terminal.control("c")
        shown = await terminal.shows("the turn ended as interrupted", mark)
        assert "withdrawn: the text above does not count" in shown
        assert (await last_turn(platform, session))["state"] == "interrupted"
        # The prompt is back, in the same session.
        mark = await at_prompt(terminal, mark + len(shown))
        terminal.type("PLAIN\r")
        await terminal.shows("plain answer", mark)
        mark = await at_prompt(terminal, mark)
        terminal.control("d")
        assert await terminal.left() == 0
        assert f"herma chat --session {session}" in terminal.text
    history = platform.data / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert "PLAIN" in history.read_text()


async def test_ctrl_c_stops_a_command_in_the_sandbox(platform: TestPlatform) -> None:
    with chat(platform) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("SLEEP\r")
        await terminal.shows("terminal is running", mark)
        terminal.control("c")
        await terminal.shows("the turn ended as", mark)
        assert (await last_turn(platform, await newest_session(platform)))["state"] == "interrupted"


async def test_a_second_ctrl_c_leaves_although_nobody_answers(platform: TestPlatform) -> None:
    with chat(platform) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("HANG\r")
        await terminal.shows("working", mark)
        session = await newest_session(platform)
        await eventually(
            lambda: platform.sql(
                "authority",
                f"SELECT 1 FROM authority.turns WHERE session_id = '{session}' AND state = 'running'",
            ),
            "the turn runs",
        )
        gateway = platform.kill("gateway", signal.SIGSTOP)
        try:
            terminal.control("c")
            await terminal.shows("interrupting", mark)
            terminal.control("c")
            assert await terminal.left() == 0
        finally:
            platform.kill("gateway", signal.SIGCONT)
        assert gateway == platform.pid("gateway")
    async with platform.client() as client:
        turn = await last_turn(platform, session)
        await client.http.post(f"/v1/turns/{turn['id']}/interrupt")
        await client.ended(turn["id"])


async def test_ctrl_c_at_the_prompt_leaves(platform: TestPlatform) -> None:
    with chat(platform) as terminal:
        await at_prompt(terminal)
        terminal.control("c")
        assert await terminal.left() == 0


async def test_calls_are_folded_and_expanded(platform: TestPlatform) -> None:
    with chat(platform) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("LIST\r")
        shown = await terminal.shows("listed all", mark)
        assert "terminal seq 101 140 · exit 0 · " in shown
        assert "40 lines" in shown
        assert "\n117\n" not in shown
        mark = await at_prompt(terminal, mark + len(shown))
        terminal.type("/expand\r")
        await terminal.shows("\n117\n", mark)
        mark = await at_prompt(terminal, mark)
        terminal.type("/nonsense\r")
        await terminal.shows("there is no command /nonsense", mark)
        mark = await at_prompt(terminal, mark)
        terminal.type("/help\r")
        await terminal.shows("/expand", mark)
        mark = await at_prompt(terminal, mark)
        terminal.type("/stop\r")
        await terminal.shows("nothing is running", mark)
        terminal.type("/exit\r")
        assert await terminal.left() == 0
    with chat(platform, "--verbose", "--continue") as terminal:
        mark = await at_prompt(terminal)
        terminal.type("LIST\r")
        await terminal.shows("117\n", mark)


async def test_a_session_is_resumed_and_shows_what_was_said(platform: TestPlatform) -> None:
    first_answer = json.loads(platform.herma("chat", "PLAIN", "-o", "json").stdout)
    session = first_answer["session_id"]
    for arguments in (["--session", session], ["--continue"]):
        with chat(platform, *arguments) as terminal:
            shown = await terminal.shows("plain answer")
            assert session in shown
            assert "> PLAIN" in shown
            mark = await at_prompt(terminal, len(shown))
            terminal.type("NAME again\r")
            await terminal.shows("you said it", mark)
    async with platform.client() as client:
        said = [m["content"] for m in await client.transcript(session) if m["role"] == "user"]
    assert said[0] == "PLAIN"
    assert said[1] == "NAME again"
    missing = "00000000-0000-7000-8000-000000000000"
    done = platform.herma("chat", "PLAIN", "--session", missing, check=False)
    assert done.returncode == 1
    assert "no such session" in done.stderr


async def test_a_turn_that_still_runs_is_joined(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        admitted = await client.submit(session, "ENDLESS")
        await eventually(lambda: client.transcript(session), "the turn has begun")
        with chat(platform, "--session", session) as terminal:
            await terminal.shows("following it")
            await terminal.shows("word word")
            terminal.control("c")
            shown = await terminal.shows("the turn ended as interrupted")
            await at_prompt(terminal, len(shown))
        assert (await client.ended(admitted["turn_id"]))["state"] == "interrupted"


async def test_pasted_lines_are_one_message(platform: TestPlatform) -> None:
    with chat(platform) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("\x1b[200~NAME one\nNAME two\x1b[201~\r")
        await terminal.shows("you said it", mark)
        session = await newest_session(platform)
    async with platform.client() as client:
        assert (await client.transcript(session))[0]["content"] == "NAME one\nNAME two"


@pytest.mark.parametrize(
    "environment", [{}, {"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=["xterm", "dumb", "no-color"]
)
async def test_what_models_and_tools_say_never_reaches_the_terminal_raw(
    platform: TestPlatform, environment: dict[str, str]
) -> None:
    with chat(platform, **environment) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("EVIL\r")
        shown = await terminal.shows("after", mark)
        mark = await at_prompt(terminal, mark + len(shown))
        assert "␛]0;pwned-title␇" in shown
        terminal.type("EVIL-TOOL\r")
        shown = await terminal.shows("[exit code 0]", mark)
        await at_prompt(terminal, mark + len(shown))
        terminal.type("/exit\r")
        assert await terminal.left() == 0
        _is_harmless(terminal.raw)
    with chat(platform, "--continue", **environment) as terminal:
        shown = await terminal.shows("[exit code 0]")
        await at_prompt(terminal, len(shown))
        terminal.type("/exit\r")
        assert await terminal.left() == 0
        _is_harmless(terminal.raw)


def test_what_models_and_tools_say_never_reaches_a_pipe_raw(platform: TestPlatform) -> None:
    for arguments in (["chat", "EVIL"], ["send", "EVIL"], ["chat", "EVIL-TOOL", "--verbose"]):
        done = platform.herma(*arguments)
        _is_harmless((done.stdout + done.stderr).encode())
        assert "pwned-title" in done.stdout


def _is_harmless(raw: bytes) -> None:
    """No title, no clipboard, no cleared screen, no 8-bit controls, no reversed text."""
    for attack in (b"\x1b]", b"\x1b[2J", "\x9b".encode(), "\u202e".encode(), b"\x07"):
        at = raw.find(attack)
        assert at < 0, raw[max(0, at - 80) : at + 40]


async def test_a_long_answer_is_whole_on_a_small_screen(platform: TestPlatform) -> None:
    with chat(platform, columns=44) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("LONG\r")
        shown = await terminal.shows("THE-END", mark)
        mark = await at_prompt(terminal, mark + len(shown))
        for number in range(1, 61):
            assert f"Paragraph {number} with words." in terminal.text
            assert f"line_{number} = {number}" in terminal.text
        terminal.type("CJK\r")
        await terminal.shows("おわり", mark)
        await at_prompt(terminal, mark)
        assert terminal.text[mark:].count("漢字") >= 20


async def test_the_text_of_a_void_attempt_is_withdrawn(platform: TestPlatform) -> None:
    with chat(platform) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("CUT\r")
        shown = await terminal.shows("whole answer", mark)
        assert "Trying again" in shown
        if "partial0" in shown:
            assert "withdrawn" in shown
    # A pipe is told the answer alone.
    done = platform.herma("chat", "CUT once more")
    assert done.stdout == "whole answer\n"
    assert "Trying again" in done.stderr


def test_a_pipe_gets_the_answer_alone(platform: TestPlatform) -> None:
    done = platform.herma("chat", input="LIST\n")
    assert done.stdout == "**listed** all\n"
    assert "terminal seq 101 140 · exit 0" in done.stderr
    assert platform.herma("chat", "PLAIN").stdout == "plain answer\n"
    assert platform.herma("chat", "-", input="PLAIN").stdout == "plain answer\n"
    nothing = platform.herma("chat", input="", check=False)
    assert (nothing.returncode, nothing.stdout) == (2, "")
    failed = platform.herma("chat", "DENIED", check=False)
    assert (failed.returncode, failed.stdout) == (3, "")
    assert "provider_exhausted" in failed.stderr


def test_json_is_one_object(platform: TestPlatform) -> None:
    found = json.loads(platform.herma("chat", "LIST", "-o", "json").stdout)
    assert found["state"] == "completed"
    assert found["text"] == "**listed** all"
    [call] = found["calls"]
    assert (call["tool"], call["state"], call["is_error"]) == ("terminal", "completed", False)
    assert call["output"].splitlines()[0] == "101"
    evil = platform.herma("chat", "EVIL", "-o", "json").stdout
    _is_harmless(evil.encode())
    assert json.loads(evil)["text"] == _EVIL
    failed = platform.herma("chat", "DENIED", "-o", "json", check=False)
    assert failed.returncode == 3
    assert json.loads(failed.stdout)["state"] == "failed"


def test_a_reader_that_goes_is_not_complained_about(platform: TestPlatform) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{HERMA} chat LONG | head -c 10"],
        env=platform.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "## Part 1\n"
    assert done.stderr == ""


async def test_ctrl_c_on_one_question_interrupts_its_turn(platform: TestPlatform) -> None:
    process = await asyncio.create_subprocess_exec(
        HERMA, "chat", "ENDLESS", "-o", "json", env=platform.environment, stdout=asyncio.subprocess.PIPE
    )
    session = ""

    async def runs() -> bool:
        nonlocal session
        session = await newest_session(platform)
        async with platform.client() as client:
            said = await client.transcript(session)
        return bool(said) and (await last_turn(platform, session))["state"] == "running"

    await eventually(runs, "the turn runs")
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    assert process.returncode == 3
    found = json.loads(said)
    assert found["session_id"] == session
    assert found["state"] == "interrupted"


async def test_a_gateway_killed_in_mid_turn_is_not_noticed_but_told(platform: TestPlatform) -> None:
    with chat(platform) as terminal:
        mark = await at_prompt(terminal)
        terminal.type("KILLED\r")
        await terminal.shows("one two", mark)
        platform.kill("gateway")
        await terminal.shows("the connection was lost; reconnecting", mark)
        await terminal.shows("FINISHED", mark)
        await at_prompt(terminal, mark)
        assert (await last_turn(platform, await newest_session(platform)))["state"] == "completed"


def test_turns_are_shown_and_interrupted(platform: TestPlatform) -> None:
    made = json.loads(platform.herma("chat", "LIST", "-o", "json").stdout)
    shown = platform.herma("turn", "show", made["turn_id"]).stdout
    for word in (
        made["session_id"],
        "completed (final_answer)",
        "attempts  1",
        "tokens in",
        "seq 101 140",
    ):
        assert word in shown
    told = json.loads(platform.herma("turn", "show", made["turn_id"], "-o", "json").stdout)
    assert told["trace_id"] in shown
    again = platform.herma("turn", "interrupt", made["turn_id"]).stdout
    assert "completed" in again
    for bad, code in (("00000000-0000-7000-8000-000000000000", 1), ("../keys", 2)):
        done = platform.herma("turn", "show", bad, check=False)
        assert done.returncode == code, done.stderr


def test_a_trace_shows_every_hop_and_where_the_time_went(platform: TestPlatform) -> None:
    made = json.loads(platform.herma("chat", "LIST", "-o", "json").stdout)
    drawn = platform.herma("trace", made["turn_id"]).stdout
    for service in ("gateway", "session-authority", "agent-runner", "tool-sandbox", "memory"):
        assert service in drawn
    for name in (
        "SessionService/Submit",
        "claim",
        "invoke_agent",
        "chat scripted",
        "execute_tool terminal",
    ):
        assert name in drawn
    assert "sandboxd exec (exit 0)" in drawn
    assert "where the time went" in drawn
    found = json.loads(platform.herma("trace", made["turn_id"], "-o", "json").stdout)
    assert found["missing_spans"] == 0
    assert found["attempts"] == 1
    assert sum(hop["ms"] for hop in found["hops"]) == pytest.approx(found["wall_ms"])
    hops = {hop["name"] for hop in found["hops"]}
    assert {"gateway", "admission", "queue wait", "claim", "runner", "model", "append", "command"} <= hops
    spans = {span["span_id"]: span for span in found["spans"]}
    critical = [span for span in found["spans"] if span["critical"]]
    # One trace, and every span but the entrance's hangs under another.
    roots = [span for span in found["spans"] if span["parent_id"] not in spans]
    assert [root["service"] for root in roots] == ["herma-gateway"]
    assert {"invoke_agent default", "execute_tool terminal", "sandboxd exec", "claim"} <= {
        span["name"] for span in critical
    }
    assert sum(line.startswith("* ") for line in drawn.splitlines()) == len(critical)


async def test_a_turn_of_two_attempts_has_both_in_its_trace(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        admitted = await client.submit(session, "SLEEP")

        async def running() -> bool:
            turn = await client.turn(admitted["turn_id"])
            return any(call["state"] == "running" for call in turn["calls"])

        await eventually(running, "the command runs")
        platform.kill("agent-runner")

        async def resumed() -> bool:
            return bool((await client.turn(admitted["turn_id"]))["attempt"] == 2)

        await eventually(resumed, "another attempt is made", 60)
        await client.http.post(f"/v1/turns/{admitted['turn_id']}/interrupt")
        await client.ended(admitted["turn_id"])
    drawn = platform.herma("trace", admitted["turn_id"]).stdout
    assert "invoke_agent (not recorded)" in drawn
    assert "(attempt 2, interrupted_by_user, linked to the one before)" in drawn
    found = json.loads(platform.herma("trace", admitted["turn_id"], "-o", "json").stdout)
    assert sum(hop["ms"] for hop in found["hops"]) == pytest.approx(found["wall_ms"])
    assert {"lost attempt", "queue wait"} <= {hop["name"] for hop in found["hops"]}


def test_a_trace_that_is_not_here_is_said_to_be_elsewhere(platform: TestPlatform, tmp_path: Path) -> None:
    made = json.loads(platform.herma("chat", "PLAIN", "-o", "json").stdout)
    remote = TestPlatform("local", {
        "HERMA_URL": platform.up_file["http"], "HERMA_API_KEY": platform.admin_key,
        "HERMA_DATA_DIR": str(tmp_path),
    })  # fmt: skip
    done = remote.herma("trace", made["turn_id"], check=False)
    assert done.returncode == 1
    assert "spans are kept on the machine of `herma up`" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(platform: TestPlatform, shell: str) -> None:
    script = platform.herma("completion", shell).stdout
    assert "_HERMA_COMPLETE" in script
    assert "herma" in script


def test_bash_completes_nouns_sessions_and_turns(platform: TestPlatform) -> None:
    made = json.loads(platform.herma("chat", "PLAIN", "-o", "json").stdout)
    platform.herma("trace", made["turn_id"])  # its spans are written now

    def offered(*words: str) -> list[str]:
        done = subprocess.run(
            [HERMA],
            env={
                **platform.environment,
                "_HERMA_COMPLETE": "complete_bash",
                "COMP_WORDS": " ".join(["herma", *words]),
                "COMP_CWORD": str(len(words)),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert "chat" in offered("ch")
    assert made["session_id"] in offered("chat", "--session", made["session_id"][:20])
    assert made["turn_id"] in offered("trace", made["turn_id"][:20])


def test_bash_takes_the_script_and_has_it_installed(platform: TestPlatform, tmp_path: Path) -> None:
    def bash(script: str) -> str:
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            env={
                **platform.environment,
                "HOME": str(tmp_path),
                "PATH": f"{Path(HERMA).parent}:/usr/bin:/bin",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "_herma_completion herma" in bash('eval "$(herma completion bash)"; complete -p herma')
    # The second command keeps bash there, as the parent that is looked for.
    assert "_HERMA_COMPLETE" in bash("herma --show-completion && true")
    bash("herma --install-completion && true")
    assert "herma" in (tmp_path / ".bashrc").read_text()


def test_the_operators_key_goes_to_no_other_platform(platform: TestPlatform) -> None:
    before = dict(platform.environment)
    platform.environment["HERMA_URL"] = "http://127.0.0.1:9"
    try:
        done = platform.herma("chat", "PLAIN", check=False)
    finally:
        platform.environment = before
    assert done.returncode == 1
    assert "set HERMA_API_KEY" in done.stderr
