"""`herma up --model local`: a real model answers through the whole platform, without any key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.support.platform import Client, TestPlatform
from tests.support.waiting import eventually

LONG = "Tell me a very long story about a fox who crosses a river."


@pytest.fixture(scope="module")
def platform() -> Iterator[TestPlatform]:
    found = TestPlatform("local")
    try:
        # An installation that has talked, and used tools, before it got this model.
        found.environment["HERMA_MODEL_BASE_URL"] = "http://127.0.0.1:9/v1"
        said = found.herma("up", "--detach", "--model", "rehearsal").stdout
        assert "rehearsal, which is not a model" in said
        found.herma("send", "$ echo before")
        found.herma("down")
        del found.environment["HERMA_MODEL_BASE_URL"]
        found.up("--model", "local")
        yield found
    finally:
        found.close()


@pytest.fixture
async def client(platform: TestPlatform) -> AsyncIterator[Client]:
    async with platform.client() as found:
        yield found


async def slots(platform: TestPlatform) -> list[dict[str, Any]]:
    """What the model's process does, by its own account."""
    address = next(s["address"] for s in platform.up_file["services"] if s["name"] == "local-model")
    key = json.loads((platform.data / "secrets.json").read_text())["local_model_key"]
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=20) as model:
        assert (await model.get("/slots")).status_code == 401
        answer = await model.get("/slots", headers={"Authorization": f"Bearer {key}"})
        found: list[dict[str, Any]] = answer.json()
        return found


async def first_words(client: Client, session: str, turn_id: str) -> None:
    """Waits until the answer streams."""
    async for event in client.events(session, turn_id=turn_id):
        if event["event"] == "message.delta" and event["text"]:
            return
    raise AssertionError("no text was streamed")


async def test_it_streams_an_answer_and_is_offered_no_tools(
    platform: TestPlatform, client: Client
) -> None:
    session = await client.session()
    admitted = await client.submit(session, LONG)
    streamed, completed = [], ""
    async for event in client.events(session, turn_id=admitted["turn_id"]):
        if event["event"] == "message.delta":
            streamed.append(event["text"])
        elif event["event"] == "message.completed":
            completed = event["content"]
    assert len(streamed) > 3
    assert len(completed.split()) > 20
    assert completed.startswith("".join(streamed[:2]))
    turn = await client.turn(admitted["turn_id"])
    assert turn["exit_reason"] == "final_answer"
    assert turn["usage"]["output_tokens"] > 20
    [(parameters,)] = platform.sql(
        "authority",
        f"SELECT parameters::text FROM authority.model_calls WHERE turn_id = '{admitted['turn_id']}'",
    )
    assert json.loads(parameters)["tools"] == []
    [(prompt,)] = platform.sql(
        "authority", f"SELECT system_prompt FROM authority.sessions WHERE id = '{session}'"
    )
    assert "assistant" in prompt
    assert "tool" not in prompt.lower()


def test_everything_says_which_model_answers(platform: TestPlatform) -> None:
    line = "smollm2-135m-instruct on this machine. It calls no tools, so it is offered none"
    assert (platform.up_file["model_choice"], platform.up_file["model"]) == ("local", line)
    assert line in platform.herma("doctor", check=False).stdout
    assert line in (platform.data / "logs" / "up.log").read_text()


async def test_a_session_that_used_tools_goes_on_without(client: Client) -> None:
    sessions = (await client.http.get("/v1/sessions?page_size=200")).json()["items"]
    for session in sessions:
        roles = [message["role"] for message in await client.transcript(session["id"])]
        if "tool" in roles:
            assert await client.answer(session["id"], "Say hello.")
            return
    raise AssertionError("no session used tools")


async def test_an_interruption_frees_the_model(platform: TestPlatform, client: Client) -> None:
    session = await client.session()
    admitted = await client.submit(session, LONG)
    await first_words(client, session, admitted["turn_id"])
    response = await client.http.post(f"/v1/turns/{admitted['turn_id']}/interrupt")
    assert response.status_code in (200, 202)
    turn = await client.ended(admitted["turn_id"])
    assert turn["exit_reason"] == "interrupted_by_user"
    # The connection was closed, so the model stopped: it does not write on for nobody.

    async def idle() -> bool:
        return not any(slot["is_processing"] for slot in await slots(platform))

    await eventually(idle, "the model is idle", 5)


async def test_a_killed_model_is_started_again_and_asked_again(
    platform: TestPlatform, client: Client
) -> None:
    session = await client.session()
    admitted = await client.submit(session, LONG)
    await first_words(client, session, admitted["turn_id"])
    old = platform.kill("local-model")
    turn = await client.ended(admitted["turn_id"], 90)
    assert turn["state"] == "completed", f"{turn}\n{platform.logs()}"
    assert platform.pid("local-model") not in (0, old)
    kinds = [
        event["event"]
        async for event in client.events(session, turn_id=admitted["turn_id"])
        if event["id"] is not None
    ]
    assert kinds.index("message.discarded") < kinds.index("message.completed")
    assert "status" in kinds
    answers = [m for m in await client.transcript(session) if m["role"] == "assistant"]
    assert len(answers) == 1


async def test_more_turns_than_the_model_takes_at_once_wait(client: Client) -> None:
    sessions = [await client.session() for _ in range(5)]
    answers = await asyncio.gather(
        *(client.answer(session, f"Say the number {n}.", 120) for n, session in enumerate(sessions))
    )
    assert all(answers)


async def test_a_message_that_is_too_long_says_so(client: Client) -> None:
    session = await client.session()
    admitted = await client.submit(session, "word " * 5000)
    turn = await client.ended(admitted["turn_id"])
    assert (turn["state"], turn["exit_reason"]) == ("failed", "context_overflow")
    assert "longer than the model reads" in turn["error"]


@pytest.mark.parametrize("name", ["HERMA_MODEL_BASE_URL", "HERMA_MODEL", "HERMA_MODEL_API_KEY"])
def test_two_models_at_once_are_refused(name: str) -> None:
    platform = TestPlatform("local", {name: "http://127.0.0.1:9/v1"})
    try:
        refused = platform.herma("up", "--model", "local", check=False)
        assert refused.returncode == 1
        assert f"unset {name}" in refused.stderr
        assert not (platform.data / "postgres").exists()
    finally:
        platform.close()
