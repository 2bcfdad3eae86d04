"""Providers against the scripted model server, which the vendor's own client also accepts."""

from __future__ import annotations

import httpx
import openai
import pytest
from tests.support.model_server import (
    ScriptedModelServer,
    calls,
    cut,
    fault_status,
    hang,
    malformed,
    text,
)
from tests.support.tcp_proxy import FaultProxy

from herma.agent_runner.domain.provider import (
    FailureClass,
    ModelAnswer,
    ModelRequest,
    ProviderError,
    TextDelta,
    ToolDefinition,
)
from herma.agent_runner.providers.chat_completions import ChatCompletions
from herma.agent_runner.providers.rehearsal import Rehearsal

TOOL = ToolDefinition("terminal", "Run a command.", {"type": "object", "properties": {}})


@pytest.fixture(scope="module")
def scripted(model: ScriptedModelServer) -> ScriptedModelServer:
    model.on("TEXT", text("grüße an alle"))
    model.on("SEPARATORS", text("a\u2028b\u0085c"))
    model.on("CALLS", calls(("terminal", {"command": "a"}), ("terminal", {"command": "b"})))
    model.on("429", fault_status(429, 7))
    model.on("500", fault_status(500))
    model.on("400", fault_status(400))
    model.on("LENGTHY", fault_status(400, code="context_length_exceeded"))
    model.on("CUT", cut())
    model.on("MALFORMED", malformed())
    model.on("HANG", hang())
    return model


def request(word: str) -> ModelRequest:
    return ModelRequest("scripted", [{"role": "user", "content": word}], [TOOL])


async def ask(server: ScriptedModelServer, word: str, key: str = "") -> tuple[str, ModelAnswer]:
    async with httpx.AsyncClient(timeout=1.0) as client:
        provider = ChatCompletions(client, server.base_url, "scripted", key or server.api_key)
        streamed = ""
        async for item in provider.stream(request(word)):
            if isinstance(item, TextDelta):
                streamed += item.text
            else:
                return streamed, item
    raise AssertionError("no answer came")


async def test_text_is_streamed_and_whole(scripted: ScriptedModelServer) -> None:
    streamed, answer = await ask(scripted, "TEXT")
    assert streamed == answer.content == "grüße an alle"
    assert (answer.finish_reason, answer.usage.input_tokens, answer.usage.output_tokens) == (
        "stop",
        11,
        3,
    )


async def test_requests_share_a_connection(scripted: ScriptedModelServer) -> None:
    used = []

    async def note(response: httpx.Response) -> None:
        used.append(response.extensions["network_stream"].get_extra_info("client_addr"))

    async with httpx.AsyncClient(timeout=1.0, event_hooks={"response": [note]}) as client:
        provider = ChatCompletions(client, scripted.base_url, "scripted", scripted.api_key)
        for _ in range(3):
            # As the fold does: it leaves the stream at the whole answer.
            async for item in provider.stream(request("TEXT")):
                if isinstance(item, ModelAnswer):
                    break
    assert len(used) == 3
    assert len(set(used)) == 1


async def test_only_line_ends_end_lines(scripted: ScriptedModelServer) -> None:
    _, answer = await ask(scripted, "SEPARATORS")
    assert answer.content == "a\u2028b\u0085c"


async def test_parallel_calls_are_put_together(scripted: ScriptedModelServer) -> None:
    _, answer = await ask(scripted, "CALLS")
    assert [call.arguments for call in answer.calls] == ['{"command": "a"}', '{"command": "b"}']
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("word", "failure"),
    [
        ("429", FailureClass.TRANSIENT),
        ("500", FailureClass.TRANSIENT),
        ("400", FailureClass.PERMANENT),
        ("LENGTHY", FailureClass.CONTEXT),
        ("CUT", FailureClass.TRANSIENT),
        ("MALFORMED", FailureClass.TRANSIENT),
        ("HANG", FailureClass.TRANSIENT),
    ],
)
async def test_failures_are_classified(
    scripted: ScriptedModelServer, word: str, failure: FailureClass
) -> None:
    with pytest.raises(ProviderError) as caught:
        await ask(scripted, word)
    assert caught.value.failure is failure
    assert caught.value.retry_after == (7.0 if word == "429" else None)


async def test_a_wrong_key_is_a_credential_failure(scripted: ScriptedModelServer) -> None:
    with pytest.raises(ProviderError) as caught:
        await ask(scripted, "TEXT", "wrong-key-sk-abcdefghijklmnopqrstuv")
    assert caught.value.failure is FailureClass.CREDENTIAL
    assert "sk-abc" not in caught.value.message


async def test_a_server_that_is_not_there_is_transient() -> None:
    async with httpx.AsyncClient(timeout=1.0) as client:
        provider = ChatCompletions(client, "http://127.0.0.1:9/v1", "m", "k")
        with pytest.raises(ProviderError) as caught:
            async for _ in provider.stream(request("TEXT")):
                pass
    assert caught.value.failure is FailureClass.TRANSIENT


async def test_the_vendors_client_takes_the_scripted_server_for_the_vendor(
    scripted: ScriptedModelServer,
) -> None:
    client = openai.AsyncOpenAI(base_url=scripted.base_url, api_key=scripted.api_key, max_retries=0)
    async with client:
        stream = await client.chat.completions.create(
            model="scripted",
            messages=[{"role": "user", "content": "CALLS"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        arguments: dict[int, str] = {}
        usage = None
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                for call in choice.delta.tool_calls or ():
                    part = call.function.arguments if call.function else ""
                    arguments[call.index] = arguments.get(call.index, "") + (part or "")
        assert arguments == {0: '{"command": "a"}', 1: '{"command": "b"}'}
        assert usage is not None
        assert usage.prompt_tokens == 11
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(
                model="scripted", messages=[{"role": "user", "content": "429"}], stream=True
            )


async def test_rehearsal_is_deterministic_and_says_what_it_is() -> None:
    messages = [{"role": "user", "content": "$ echo hi\nread a.txt\nwrite b.txt: text"}]
    first = [item async for item in Rehearsal().stream(ModelRequest("r", messages, [TOOL]))]
    again = [item async for item in Rehearsal().stream(ModelRequest("r", messages, [TOOL]))]
    assert first == again
    answer = first[-1]
    assert isinstance(answer, ModelAnswer)
    # Only offered tools are called.
    assert [(call.tool, call.arguments) for call in answer.calls] == [
        ("terminal", '{"command": "echo hi"}')
    ]
    assert "no model" in answer.content
    results = [
        *messages,
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "x", "content": "hi"},
    ]
    final = [item async for item in Rehearsal().stream(ModelRequest("r", results, [TOOL]))][-1]
    assert isinstance(final, ModelAnswer)
    assert not final.calls
    assert "hi" in final.content


async def test_calls_share_a_connection(scripted: ScriptedModelServer) -> None:
    with FaultProxy(scripted.base_url.removesuffix("/v1")) as proxy:
        async with httpx.AsyncClient(timeout=1.0) as client:
            url = f"http://{proxy.address}/v1"
            provider = ChatCompletions(client, url, "scripted", scripted.api_key)
            for _ in range(3):
                items = [item async for item in provider.stream(request("TEXT"))]
                assert isinstance(items[-1], ModelAnswer)
        assert proxy.accepted == 1
