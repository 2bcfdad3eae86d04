"""The vendor's own client takes the scripted server for the vendor, in good times and in bad."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from tests.support.model_server import (
    ScriptedModelServer,
    call,
    calls,
    cut,
    echo_results,
    fault_status,
    first,
    hang,
    malformed,
    raw_arguments,
    slow,
    text,
    unknown_tool,
    wrong_with,
)
from tests.support.waiting import eventually

LONG = "one  two\nthree \u2028 grüße\n"


@pytest.fixture
def server() -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer() as found:
        yield found


@pytest.fixture
async def client(server: ScriptedModelServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with vendor(server) as found:
        yield found


def vendor(server: ScriptedModelServer, key: str = "") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=server.base_url, api_key=key or server.api_key, max_retries=0, timeout=10
    )


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def asked(*ids: str) -> dict[str, Any]:
    function = {"name": "terminal", "arguments": "{}"}
    wanted = [{"id": i, "type": "function", "function": function} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": wanted}


def result(call_id: str, content: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


async def stream(client: openai.AsyncOpenAI, *messages: dict[str, Any]) -> list[Any]:
    found = await client.chat.completions.create(  # type: ignore[call-overload]
        model="scripted",
        messages=messages,
        stream=True,
        stream_options={"include_usage": True},
    )
    return [chunk async for chunk in found]


async def answer(client: openai.AsyncOpenAI, *messages: dict[str, Any]) -> str:
    chunks = await stream(client, *messages)
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


@pytest.mark.parametrize("step", [text(LONG), text(LONG, chunks=3), slow(LONG, per_token=0.001)])
async def test_text_is_streamed_in_chunks_of_one_completion(
    server: ScriptedModelServer, client: openai.AsyncOpenAI, step: Any
) -> None:
    server.on("hello", step)
    chunks = await stream(client, user("hello"))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == LONG
    assert len({(c.id, c.created, c.model, c.object) for c in chunks}) == 1
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 11 + chunks[-1].usage.completion_tokens
    assert all(c.usage is None for c in chunks[:-1])


async def test_an_answer_that_is_not_streamed_is_the_same(
    server: ScriptedModelServer, client: openai.AsyncOpenAI
) -> None:
    server.on("hello", calls(call("terminal", command="ls"), text="let me see"), text("done"))
    first_one = await client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "hello"}]
    )
    message = first_one.choices[0].message
    assert message.content == "let me see"
    assert message.tool_calls
    assert message.tool_calls[0].to_dict()["function"] == {
        "name": "terminal",
        "arguments": '{"command": "ls"}',
    }
    assert first_one.choices[0].finish_reason == "tool_calls"
    assert first_one.usage
    assert first_one.usage.completion_tokens == 5


async def test_parallel_calls_come_in_fragments_joined_by_index(
    server: ScriptedModelServer, client: openai.AsyncOpenAI
) -> None:
    server.on("both", calls(call("terminal", command="a"), call("read_file", path="b"), fragments=4))
    parts = [
        part
        for c in await stream(client, user("both"))
        if c.choices
        for part in c.choices[0].delta.tool_calls or ()
    ]
    assert [(p.index, p.id, p.function.name) for p in parts if p.id] == [
        (0, "call_0", "terminal"),
        (1, "call_1", "read_file"),
    ]
    for index, wanted in enumerate(({"command": "a"}, {"path": "b"})):
        fragments = [p.function.arguments for p in parts if p.index == index]
        assert len(fragments) == 5
        assert json.loads("".join(fragments)) == wanted


async def test_steps_follow_the_conversation_and_not_the_order_of_requests(
    server: ScriptedModelServer, client: openai.AsyncOpenAI
) -> None:
    server.on("work", calls(call("terminal", command="a"), ids=["x"]), echo_results(), text("last"))
    conversation = [user("earlier"), {"role": "assistant", "content": "yes"}, user("work A")]
    conversation += [asked("x"), result("x", "output of x")]
    assert await answer(client, *conversation) == "output of x"
    assert await answer(client, *conversation) == "output of x"
    assert await answer(client, *conversation, asked("x"), result("x")) == "last"
    assert await answer(client, *conversation, *[asked("x"), result("x")] * 3) == "last"
    assert (await stream(client, user("work A")))[-2].choices[0].finish_reason == "tool_calls"
    assert await answer(client, user("what?")) == "nothing is scripted for this"


async def test_rules_match_words_patterns_and_functions(
    server: ScriptedModelServer, client: openai.AsyncOpenAI
) -> None:
    server.on(re.compile(r"^\d+$"), text("number"))
    server.on(lambda content: len(content) > 10, text("long"))
    server.on("word", lambda request: text(f"step {request.step} of {request.last_user}"))
    assert await answer(client, user("42")) == "number"
    assert await answer(client, user("a word that is long")) == "long"
    parts: Any = [{"type": "text", "text": "the word"}]
    assert await answer(client, {"role": "user", "content": parts}) == "step 0 of the word"


async def test_faults_are_counted_for_each_conversation(
    server: ScriptedModelServer, client: openai.AsyncOpenAI
) -> None:
    server.on("busy", fault_status(429, retry_after=0.5, times=2), fault_status(500, times=1), text("ok"))
    server.on("then", *first([fault_status(503)], calls(call("terminal"))), text("end"))
    for name in ("busy A", "busy B"):
        for _ in range(2):
            with pytest.raises(openai.RateLimitError) as limited:
                await answer(client, user(name))
            assert limited.value.response.headers["retry-after"] == "0.5"
        with pytest.raises(openai.InternalServerError):
            await answer(client, user(name))
        assert await answer(client, user(name)) == "ok"
    with pytest.raises(openai.InternalServerError):
        await answer(client, user("then"))
    assert (await stream(client, user("then")))[-2].choices[0].finish_reason == "tool_calls"
    assert await answer(client, user("then"), asked("a"), result("a")) == "end"
    with pytest.raises(ValueError, match="after its faults"):
        server.on("never", fault_status(500, times=1))


async def test_a_cut_stream_is_a_lost_connection(
    server: ScriptedModelServer, client: openai.AsyncOpenAI
) -> None:
    server.on("cut", cut(after=2))
    found = await client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "cut"}], stream=True
    )
    pieces = []

    async def read() -> None:
        async for chunk in found:
            pieces.append(chunk.choices[0].delta.content)

    with pytest.raises((openai.APIConnectionError, httpx.ReadError, httpx2.ReadError)):
        await read()
    assert pieces == ["partial0 ", "partial1 "]
    request = await server.wait_for_request("cut")
    await eventually(lambda: request.ended, "the server is done")
    assert not request.aborted
    # The server lives.
    assert await answer(client, user("?")) == "nothing is scripted for this"


async def test_a_malformed_chunk_is_one_bad_line_in_a_good_stream(
    server: ScriptedModelServer, client: openai.AsyncOpenAI
) -> None:
    server.on("bad", malformed())
    with pytest.raises(json.JSONDecodeError):
        await answer(client, user("bad"))
    body = {"model": "scripted", "messages": [user("bad")], "stream": True}
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {server.api_key}"}) as raw:
        sent = (await raw.post(f"{server.base_url}/chat/completions", json=body)).text
    data = [line.removeprefix("data: ") for line in sent.split("\n\n") if line]
    assert data[-1] == "[DONE]"
    broken = []
    for line in data[:-1]:
        try:
            json.loads(line)
        except ValueError:
            broken.append(line)
    assert broken == ['{"id": "broken", "choices": [']


async def test_models_that_call_nonsense(server: ScriptedModelServer, client: openai.AsyncOpenAI) -> None:
    server.on("broken", raw_arguments('{"command": '))
    server.on("unknown", unknown_tool())
    for word, name, arguments in (
        ("broken", "terminal", '{"command": '),
        ("unknown", "no_such_tool", "{}"),
    ):
        parts = [
            c.choices[0].delta.tool_calls[0]
            for c in await stream(client, user(word))
            if c.choices and c.choices[0].delta.tool_calls
        ]
        assert parts[0].function.name == name
        assert "".join(p.function.arguments for p in parts) == arguments


@pytest.mark.parametrize("word", ["hang", "stream"])
async def test_a_client_that_goes_is_noticed(
    server: ScriptedModelServer, client: openai.AsyncOpenAI, word: str
) -> None:
    server.on("hang", hang(30))
    server.on("stream", text("a b c d e f", per_chunk=5))
    asking = asyncio.create_task(answer(client, user(word)))
    request = await server.wait_for_request(lambda r: r.last_user == word, 10)
    if word == "stream":
        await eventually(lambda: request.status == 200, "the stream begins", 10)
    assert request.ended is None
    asking.cancel()
    await eventually(lambda: request.aborted, "the server notices", 10)
    await eventually(lambda: request.ended, "the answer ends", 10)
    assert request.status == (None if word == "hang" else 200)


async def test_a_hang_ends_by_itself(server: ScriptedModelServer, client: openai.AsyncOpenAI) -> None:
    server.on("hang", hang(0.1))
    with pytest.raises(openai.APIConnectionError):
        await answer(client, user("hang"))


async def test_requests_are_recorded(server: ScriptedModelServer) -> None:
    server.on("hello", text("hi"))
    async with vendor(server) as client:
        await client.chat.completions.create(
            model="scripted",
            messages=[{"role": "user", "content": "hello"}],
            tools=[
                {"type": "function", "function": {"name": "terminal", "parameters": {"type": "object"}}}
            ],
            extra_headers={"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"},
        )
        assert [model.id async for model in client.models.list()] == ["scripted"]
    (request,) = server.requests
    assert request.tools == ["terminal"]
    assert request.traceparent.split("-")[1] == "a" * 32
    assert request.ended is not None
    assert request.began <= request.ended
    assert (request.status, request.aborted, request.refusal) == (200, False, "")
    assert server.matching("hello") == [request]
    assert server.refused == []
    with pytest.raises(AssertionError, match="a request to the model: other"):
        await server.wait_for_request("other", 0.05)


async def test_many_conversations_at_once(
    server: ScriptedModelServer, client: openai.AsyncOpenAI
) -> None:
    server.on("n", fault_status(429, times=1), lambda request: text(request.last_user, per_chunk=0.01))

    async def one(number: int) -> str:
        with pytest.raises(openai.RateLimitError):
            await answer(client, user(f"n {number}"))
        return await answer(client, user(f"n {number}"))

    assert await asyncio.gather(*map(one, range(20))) == [f"n {i}" for i in range(20)]


TOOL = {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"model": "gpt-none"}, 404, "does not exist"),
        ({"messages": []}, 400, "not empty"),
        ({"messages": [user("x"), {"role": "robot", "content": "x"}]}, 400, "is not one of"),
        ({"messages": [user("x"), result("a")]}, 400, "must be a response to a preceding"),
        ({"messages": [user("x"), asked("a")]}, 400, "must be followed by tool messages"),
        ({"messages": [user("x"), asked("a"), user("y")]}, 400, "had no response: a"),
        ({"messages": [user("x"), asked("a", "b"), result("b"), asked("c")]}, 400, "no response: a"),
        ({"messages": [user("x"), asked("a"), result("a"), result("a")]}, 400, "must be a response"),
        ({"messages": [user("x"), asked("a", "a"), result("a"), result("a")]}, 400, "given twice"),
        ({"messages": [user("x"), {"role": "assistant", "content": ""}]}, 400, "content or 'tool_calls'"),
        ({"messages": [{"role": "user", "content": None}]}, 400, "expected a string"),
        ({"tools": []}, 400, "too short"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, 400, "does not match"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}]},
            400,
            "it must have the type 'object'",
        ),
        ({"stream_options": {"include_usage": True}}, 400, "only allowed when 'stream' is enabled"),
        ({"tool_choice": "required"}, 400, "only allowed when 'tools'"),
        ({"session_id": "x"}, 400, "Unrecognized request argument supplied: session_id"),
        ({"tools": [TOOL], "temperature": 0, "tool_choice": "required"}, 200, ""),
        ({"messages": [user("x"), asked("a", "b"), result("b"), result("a"), user("y")]}, 200, ""),
        ({"messages": [{"role": "system", "content": "x"}]}, 200, ""),
    ],
)
async def test_requests_are_judged_as_the_vendor_does(
    server: ScriptedModelServer, change: dict[str, Any], status: int, said: str
) -> None:
    body = {"model": "scripted", "messages": [user("x")], **change}
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {server.api_key}"}) as raw:
        response = await raw.post(f"{server.base_url}/chat/completions", json=body)
    assert response.status_code == status, response.text
    if status != 200:
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert said in error["message"]
        assert server.refused == server.requests


async def test_keys_and_paths_and_bodies_are_checked(server: ScriptedModelServer) -> None:
    async with vendor(server, "wrong") as stranger:
        with pytest.raises(openai.AuthenticationError, match="Incorrect API key"):
            await answer(stranger, user("x"))
    async with httpx.AsyncClient(base_url=server.base_url) as raw:
        assert (await raw.get("/models")).status_code == 401
        authorization = {"Authorization": f"Bearer {server.api_key}"}
        assert (await raw.get("/nowhere", headers=authorization)).status_code == 404
        for body in (b"{broken", b"", b"[1]", b"\xff"):
            response = await raw.post("/chat/completions", content=body, headers=authorization)
            assert response.status_code == 400
            assert "could not parse" in response.json()["error"]["message"]
    with ScriptedModelServer(api_key="", models=["a", "b"]) as open_to_all:
        async with httpx.AsyncClient(base_url=open_to_all.base_url) as raw:
            assert [m["id"] for m in (await raw.get("/models")).json()["data"]] == ["a", "b"]


def test_conversations_can_be_judged_alone() -> None:
    assert wrong_with([user("x"), asked("a"), result("a")]) == ""
    assert "no response: a" in wrong_with([user("x"), asked("a")])


async def test_it_stops_at_once_in_mid_answer() -> None:
    loop = asyncio.get_running_loop()
    with ScriptedModelServer() as server:
        server.on("hang", hang(60))
        async with vendor(server) as client:
            asking = asyncio.create_task(answer(client, user("hang")))
            await server.wait_for_request("hang", 10)
            began = loop.time()
            await asyncio.to_thread(server.close)
            assert loop.time() - began < 5
            with pytest.raises(openai.APIError):
                await asking


async def test_it_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    script = {
        "api_key": "k",
        "models": ["m"],
        "rules": [
            {"match": {"regex": "^go"}, "steps": [{"fault_status": 429, "times": 1}, {"text": "went"}]},
            {
                "match": "run",
                "steps": [
                    {"calls": [["terminal", {"command": "ls"}]], "text": "so"},
                    {"echo_results": None},
                ],
            },
        ],
    }
    file = tmp_path / "script.json"
    file.write_text(json.dumps(script))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.model_server", "--script", str(file)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        url = (await asyncio.to_thread(process.stdout.readline)).strip()
        async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=1) as client:
            for content, said in (("go", "went"), ("run", "so")):
                found = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": content}]
                )
                assert found.choices[0].message.content == said
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0
    finally:
        process.kill()
        process.wait()
