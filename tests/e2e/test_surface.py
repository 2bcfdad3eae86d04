"""One real turn, and what the API makes of good and bad input."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
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
    malformed,
    text,
)
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.platform import TestPlatform
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as found:
        yield found


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer, backend: str, receiver: OtlpReceiver) -> Iterator[TestPlatform]:
    def run(command: str) -> Any:
        return calls(("terminal", {"command": command}))

    model.on(
        "WHERE",
        run("cat /etc/hostname; id -un; ls /opt/herma/bin; touch /tmp/herma-was-here; echo pid=$$"),
        echo_results(),
    )
    model.on(
        "NETWORK",
        run("cat /proc/net/dev; cat /proc/self/status | grep Cap; touch /x 2>&1"),
        echo_results(),
    )
    model.on("PLAIN", text("plain answer"))
    model.on("SECRET", run("echo the-secret-content"), text("done with the-secret-content"))
    model.on("BUSY", first([fault_status(429, 0.1), fault_status(500)], text("after all")))
    model.on("CUT", first([cut(), malformed()], text("whole answer")))
    model.on("DENIED", fault_status(400))
    model.on("UNKNOWN-TOOL", calls(("no_such_tool", {})), echo_results())
    model.on("BROKEN", calls(("terminal", '{"command": ')), echo_results())
    model.on("EXTRA", calls(("terminal", {"command": "true", "nonsense": 1})), echo_results())
    model.on("BIG", run("head -c 1000000 /dev/zero | tr '\\0' x; echo end-of-output"), echo_results())
    model.on("BINARY", run("head -c 300 /dev/urandom; printf '\\0\\377'; echo fin"), echo_results())
    model.on(
        "NAMES",
        run("printf a > 'a b'; printf b > $'c\\nd'; printf c > $'\\xff\\xfe'; ls | wc -l"),
        calls(("read_file", {"path": "a b"}), ("read_file", {"path": "c\nd"})),
        echo_results(),
    )
    model.on(
        "ESCAPE",
        run("ln -s /etc/passwd link; ln -s .. up"),
        calls(
            ("read_file", {"path": "../../etc/passwd"}),
            ("read_file", {"path": "/etc/passwd"}),
            ("read_file", {"path": "link"}),
            ("write_file", {"path": "up/escaped", "content": "x"}),
            ("write_file", {"path": "../escaped", "content": "x"}),
        ),
        echo_results(),
    )
    model.on(
        "FILES",
        calls(("write_file", {"path": "a/b/ü.txt", "content": "grüße\n"})),
        calls(("read_file", {"path": "a/b/ü.txt"})),
        echo_results(),
    )
    model.on(
        "PARALLEL",
        calls(
            ("terminal", {"command": "sleep 1; echo first"}),
            ("terminal", {"command": "echo second"}),
            ids=["same", "same2"],
        ),
        echo_results(),
    )
    model.on(
        "LEAVE",
        run("sleep 4321 >/dev/null 2>&1 & setsid sleep 4321 >/dev/null 2>&1 & echo left"),
        text("ok"),
    )
    model.on("REMAINS", run("pgrep -fc '^sleep 4321'; true"), echo_results())
    model.on("HANG", hang(30))
    model.on("SLEEP", run("sleep 300"), echo_results())
    model.on("STREAM", text("one two three four five six seven eight", per_chunk=0.1))
    yield from platform_for(model, backend, HERMA_OTLP_ENDPOINT=receiver.endpoint)


@pytest.mark.docker
async def test_a_command_runs_inside_the_sessions_container(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        answer = await client.answer(session, "WHERE are you?")
        container = platform.container_of(session)
        inside = subprocess.run(
            ["docker", "exec", container, "cat", "/etc/hostname"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert inside.stdout.strip() in answer
        assert "agent" in answer.split()
        assert "sandboxd" in answer
        subprocess.run(["docker", "exec", container, "test", "-e", "/tmp/herma-was-here"], check=True)
        assert not Path("/tmp/herma-was-here").exists()


@pytest.mark.docker
async def test_a_sandbox_is_hardened(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        answer = await client.answer(session, "NETWORK?")
        interfaces = [
            line.split(":")[0].strip()
            for line in answer.splitlines()
            if ":" in line and "Cap" not in line
        ]
        assert "eth0" not in interfaces
        assert "CapEff:\t0000000000000000" in answer
        assert "Read-only file system" in answer
        described = json.loads(
            subprocess.run(
                ["docker", "inspect", platform.container_of(session)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )[0]
        assert described["HostConfig"]["NetworkMode"] == "none"
        assert described["HostConfig"]["Privileged"] is False
        assert {mount["Destination"] for mount in described["Mounts"]} == {"/workspace", "/run/herma"}
        assert [m["RW"] for m in described["Mounts"] if m["Destination"] == "/run/herma"] == [False]


async def test_one_key_and_fifty_submissions_are_one_turn(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        key = uuid.uuid4().hex
        answers = await asyncio.gather(*(client.submit(session, "PLAIN", key) for _ in range(50)))
        assert len({json.dumps(answer, sort_keys=True) for answer in answers}) == 1
        await client.ended(answers[0]["turn_id"])
        assert [m["role"] for m in await client.transcript(session)] == ["user", "assistant"]
        other = await client.http.post(
            f"/v1/sessions/{session}/messages",
            json={"content": "something else"},
            headers={"Idempotency-Key": key},
        )
        assert other.status_code == 409
        assert other.json()["reason"] == "IDEMPOTENCY_CONFLICT"


async def test_one_trace_reaches_from_the_request_to_the_sandboxed_process(
    platform: TestPlatform, receiver: OtlpReceiver
) -> None:
    async with platform.client() as client:
        session = await client.session()
        admitted = await client.submit(session, "WHERE and SECRET")
        turn = await client.ended(admitted["turn_id"])
        answer = (await client.transcript(session))[-1]["content"]

        def complete() -> bool:
            names = {span.name for span in receiver.trace(turn["trace_id"])}
            return "sandboxd exec" in names and "invoke_agent default" in names

        await eventually(complete, "the spans arrive")
        spans = receiver.trace(turn["trace_id"])
        by_name = {span.name: span for span in spans}
        root = by_name["POST /v1/sessions/{session_id}/messages"]
        assert root.parent_id == ""
        ids = {span.span_id for span in spans}
        assert all(span.parent_id in ids for span in spans if span is not root)
        assert by_name["chat scripted"].attributes["gen_ai.operation.name"] == "chat"
        assert by_name["chat scripted"].attributes["gen_ai.usage.input_tokens"] == 11
        assert by_name["execute_tool terminal"].attributes["gen_ai.tool.name"] == "terminal"
        assert by_name["invoke_agent default"].attributes["gen_ai.conversation.id"] == session
        pid = int(answer.partition("pid=")[2].split()[0])
        assert by_name["sandboxd exec"].attributes["process.pid"] == pid
        everything = json.dumps([span.attributes for span in spans])
        assert "WHERE and SECRET" not in everything
        assert "herma-was-here" not in everything


async def test_streamed_text_comes_before_the_message_is_complete(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        admitted = await client.submit(session, "STREAM please")
        kinds, streamed = [], ""
        async for event in client.events(session, turn_id=admitted["turn_id"]):
            kinds.append(event["event"])
            if event["event"] == "message.delta":
                assert event["id"] is None
                assert event["offset"] == len(streamed)
                streamed += event["text"]
        assert kinds.count("message.delta") >= 3
        assert (
            kinds.index("message.started")
            < kinds.index("message.delta")
            < kinds.index("message.completed")
        )
        assert kinds[-1] == "turn.ended"
        assert "one two three four five six seven eight".startswith(streamed)


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "reason"),
    [
        ("GET", "/v1/sessions/nonsense", {}, 404, "SESSION_NOT_FOUND"),
        ("GET", "/v1/nowhere", {}, 404, "NOT_FOUND"),
        ("PUT", "/v1/sessions", {}, 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/v1/sessions", {"content": b"{broken"}, 400, "INVALID_JSON"),
        ("POST", "/v1/sessions", {"json": {"surprise": 1, "other": 2}}, 400, "INVALID_ARGUMENT"),
        ("POST", "/v1/sessions", {"json": {"profile": "nope"}}, 404, "PROFILE_NOT_FOUND"),
        ("POST", "/v1/sessions", {"json": {"title": "a\nb"}}, 400, "INVALID_ARGUMENT"),
        ("POST", "/v1/sessions", {"content": b"[" * 5000}, 400, "JSON_TOO_DEEP"),
        ("POST", "/v1/sessions", {"content": b"x" * 10_000_000}, 413, "BODY_TOO_LARGE"),
        ("GET", "/v1/sessions?page_size=0", {}, 400, "INVALID_ARGUMENT"),
        ("GET", "/v1/sessions?page_token=%21", {}, 404, "PAGE_NOT_FOUND"),
    ],
)
async def test_bad_requests_get_clear_problems(
    platform: TestPlatform, method: str, path: str, options: dict[str, Any], status: int, reason: str
) -> None:
    async with platform.client() as client:
        headers = {"Content-Type": "application/json"} if "content" in options else {}
        response = await client.http.request(method, path, headers=headers, **options)
        assert response.status_code == status, response.text
        assert response.headers["content-type"].startswith("application/problem+json")
        body = response.json()
        assert body["reason"] == reason
        assert body["status"] == status
        if "surprise" in str(options):
            assert {e["field"] for e in body["errors"]} == {"surprise", "other"}


async def test_bad_messages_are_refused_and_leave_nothing(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        for body in (
            {"content": ""},
            {"content": "a\0b"},
            {"content": "x", "mode": "steer"},
            {"content": "x", "unknown": True},
            {},
        ):
            response = await client.http.post(f"/v1/sessions/{session}/messages", json=body)
            assert response.status_code == 400, body
        found = (await client.http.get(f"/v1/sessions/{session}")).json()
        assert found["last_seq"] == 0
        ahead = await client.http.get(f"/v1/sessions/{session}/events?after=5")
        assert ahead.status_code == 400
        assert ahead.json()["reason"] == "CURSOR_OUT_OF_RANGE"


async def test_provider_faults_are_tried_again_or_told(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    async with platform.client() as client:
        assert await client.answer(await client.session(), "BUSY") == "after all"
        session = await client.session()
        assert await client.answer(session, "CUT") == "whole answer"
        kinds = []
        async for event in client.events(session):
            kinds.append(event["event"])
            if event["event"] == "turn.ended":
                break
        assert kinds.count("message.started") == 3
        assert kinds.count("message.discarded") == 2
        admitted = await client.submit(await client.session(), "DENIED")
        turn = await client.ended(admitted["turn_id"])
        assert (turn["state"], turn["exit_reason"]) == ("failed", "provider_exhausted")
        assert "scripted 400" in turn["error"]
        assert len(model.matching("DENIED")) == 1


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "UNKNOWN-TOOL",
            "There is no tool 'no_such_tool'. The tools are: memory, read_file, terminal, write_file.",
        ),
        ("BROKEN", "do not fit its schema"),
        ("EXTRA", "nonsense"),
        ("FILES", "grüße"),
    ],
)
async def test_what_models_send_gets_a_clear_answer(platform: TestPlatform, word: str, said: str) -> None:
    async with platform.client() as client:
        assert said in await client.answer(await client.session(), word)


async def test_large_and_binary_output_is_bounded_and_readable(platform: TestPlatform) -> None:
    async with platform.client() as client:
        answer = await client.answer(await client.session(), "BIG")
        assert len(answer) < 120_000
        assert answer.startswith("[exit code 0]")
        assert "bytes left out; all of it is in .herma/output/" in answer
        assert answer.rstrip().endswith("end-of-output")
        answer = await client.answer(await client.session(), "BINARY")
        assert answer.rstrip().endswith("fin")


async def test_strange_file_names_and_escapes(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        assert await client.answer(session, "NAMES") == "[exit code 0]\n4\n\na\nb"
        session = await client.session()
        answer = await client.answer(session, "ESCAPE")
        assert "root:" not in answer
        assert answer.count("The call failed:") == 5, answer


async def test_results_follow_the_order_of_the_calls(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        answer = await client.answer(session, "PARALLEL")
        assert answer.index("first") < answer.index("second")
        completed = []
        turn = [m for m in await client.transcript(session) if m["role"] == "tool"]
        assert len(turn) == 2
        async for event in client.events(session):
            if event["event"] == "call.completed":
                completed.append(event["content"])
            if event["event"] == "turn.ended":
                break
        assert "second" in completed[0]


async def test_what_a_turn_left_running_is_gone_in_the_next(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        assert await client.answer(session, "LEAVE") == "ok"
        assert (await client.answer(session, "REMAINS")).split() == ["[exit", "code", "0]", "0"]


@pytest.mark.parametrize("word", ["HANG", "SLEEP"])
async def test_a_turn_can_be_interrupted(
    platform: TestPlatform, model: ScriptedModelServer, word: str
) -> None:
    async with platform.client() as client:
        session = await client.session()
        admitted = await client.submit(session, word)
        if word == "HANG":
            await eventually(lambda: model.matching("HANG"), "the model is asked")
        else:

            async def running() -> bool:
                calls_ = (await client.turn(admitted["turn_id"]))["calls"]
                return any(call["state"] == "running" for call in calls_)

            await eventually(running, "the command runs")
        queued = await client.submit(session, "PLAIN")
        response = await client.http.post(f"/v1/turns/{admitted['turn_id']}/interrupt")
        assert response.status_code == 200
        turn = await client.ended(admitted["turn_id"], 20)
        assert (turn["state"], turn["exit_reason"]) == ("interrupted", "interrupted_by_user")
        if word == "HANG":
            await eventually(lambda: model.matching("HANG")[0].aborted, "the connection is closed")
        assert (await client.ended(queued["turn_id"]))["state"] == "completed"
        again = await client.http.post(f"/v1/turns/{admitted['turn_id']}/interrupt")
        assert again.json()["state"] == "interrupted"


async def test_probes_metrics_and_openapi(platform: TestPlatform) -> None:
    async with platform.client() as client:
        assert (await client.http.get("/healthz")).status_code == 200
        assert (await client.http.get("/readyz")).status_code == 200
        assert "python_info" in (await client.http.get("/metrics")).text
        document = (await client.http.get("/openapi.json")).json()
        assert "/v1/sessions/{session_id}/events" in document["paths"]


def test_the_command_line_sends_and_examines(platform: TestPlatform) -> None:
    sent = json.loads(platform.herma("send", "PLAIN", "-o", "json").stdout)
    assert (sent["state"], sent["text"]) == ("completed", "plain answer")
    again = platform.herma("send", "PLAIN", "--session", sent["session_id"])
    assert again.stdout.strip() == "plain answer"
    found = json.loads(platform.herma("doctor", "-o", "json", check=False).stdout)
    assert "rule `none`" in next(f["text"] for f in found if f["name"] == "policy")
    assert next(f["level"] for f in found if f["name"] == "platform") == "ok"
    made = json.loads(platform.herma("key", "create", "--scope", "agent", "-o", "json").stdout)
    assert made["scopes"] == ["agent"]
    second = platform.herma("up", "--detach", check=False)
    assert second.returncode == 1
    assert "up already" in second.stdout
