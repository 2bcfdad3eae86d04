"""OpenAI's clients against a platform: what they send is answered as they expect."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import platform_for
from tests.support.model_server import (
    Reply,
    Request,
    ScriptedModelServer,
    Step,
    calls,
    fault_status,
    text,
    unknown_tool,
)
from tests.support.openai_clients import asking, streamed, user
from tests.support.platform import TestPlatform


async def _curtailed(reply: Reply) -> None:
    await reply.chunk({"content": "as far as it goes"})
    await reply.end("length", 4)


def _scripted(request: Request) -> Step:
    """A script in the message itself: a list of texts, each but the last with a tool call."""
    texts: list[str] = json.loads(request.last_user.partition(" ")[2])
    said = texts[request.step]
    if request.step < len(texts) - 1:
        return calls(("no_such_tool", {}), text=said)
    return text(said)


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    model.on("SLOWLY", text("one two three four five six", per_chunk=0.3))
    model.on("PLAIN", text("plain answer"))
    model.on("LATER", text("a later answer"))
    model.on(
        "TOOLS",
        calls(("terminal", {"command": "echo found"}), text="I look first."),
        text("Then I answer."),
    )
    model.on("DENIED", fault_status(400))
    model.on("FOREVER", unknown_tool())
    model.on("CURTAILED", Step(_curtailed))
    model.on("SCRIPT", _scripted)
    yield from platform_for(model, "local", HERMA_LEASE_TTL_SECONDS="60")


@pytest.fixture
def client(platform: TestPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{platform.up_file['http']}/v1", api_key=platform.admin_key, max_retries=0
    ) as found:
        yield found


def test_models_are_profiles(client: openai.OpenAI) -> None:
    (found,) = client.models.list().data
    assert (found.id, found.object, found.owned_by) == ("default", "model", "herma")
    assert found.created > 1_700_000_000
    assert client.models.retrieve("default") == found
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("nobody")
    assert refused.value.code == "model_not_found"


def test_a_whole_answer(client: openai.OpenAI, model: ScriptedModelServer) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="default", messages=user("PLAIN"), temperature=0.2, seed=7, extra_body={"unknown": 1}
    )
    answer = raw.parse()
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "plain answer")
    assert (choice.finish_reason, answer.model, answer.object) == ("stop", "default", "chat.completion")
    assert answer.id == f"chatcmpl-{raw.headers['x-herma-turn']}"
    assert uuid.UUID(raw.headers["x-herma-session"])
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 2)
    assert answer.usage.total_tokens == 13
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0
    assert not model.refused


async def test_a_streamed_answer_comes_as_it_is_made(platform: TestPlatform) -> None:
    async with asking(platform) as client:
        stream = await client.chat.completions.create(
            model="default",
            messages=user("SLOWLY please"),
            stream=True,
            stream_options={"include_usage": True},
        )
        content, chunks = await streamed(stream)
    assert content == "one two three four five six"
    assert len([c for c in chunks if c.choices and c.choices[0].delta.content]) >= 3
    assert chunks[0].choices[0].delta.role == "assistant"
    assert {(c.id, c.created, c.model, c.object) for c in chunks} == {
        (chunks[0].id, chunks[0].created, "default", "chat.completion.chunk")
    }
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert all(c.usage is None for c in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 17


def test_a_synchronous_stream_without_usage(client: openai.OpenAI) -> None:
    with client.chat.completions.create(model="default", messages=user("PLAIN"), stream=True) as stream:
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "plain answer"
    assert all(c.usage is None for c in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"


async def test_text_before_tool_calls_is_part_of_the_answer(platform: TestPlatform) -> None:
    async with asking(platform) as client:
        whole = await client.chat.completions.create(model="default", messages=user("TOOLS please"))
        content, _ = await streamed(
            await client.chat.completions.create(
                model="default", messages=user("TOOLS please"), stream=True
            )
        )
    assert whole.choices[0].message.content == content == "I look first.\n\nThen I answer."
    assert whole.choices[0].message.tool_calls is None
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 22  # of both model calls


def test_litellm_is_a_client(platform: TestPlatform) -> None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a list at import
    import litellm

    options: dict[str, Any] = {
        "model": "openai/default",
        "api_base": f"{platform.up_file['http']}/v1",
        "api_key": platform.admin_key,
        "num_retries": 0,
    }
    whole: Any = litellm.completion(messages=user("PLAIN"), **options)
    assert whole.choices[0].message.content == "plain answer"
    assert whole.usage.total_tokens == 13
    stream: Any = litellm.completion(
        messages=user("TOOLS please"), stream=True, stream_options={"include_usage": True}, **options
    )
    chunks = list(stream)
    content = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert content == "I look first.\n\nThen I answer."
    assert any(getattr(c, "usage", None) and c.usage.prompt_tokens == 22 for c in chunks)
    with pytest.raises(litellm.ServiceUnavailableError, match="refused the request"):
        list(litellm.completion(messages=user("DENIED"), stream=True, **options))
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(messages=user("PLAIN"), **{**options, "model": "openai/nobody"})
    with pytest.raises(litellm.AuthenticationError):
        litellm.completion(messages=user("PLAIN"), **{**options, "api_key": "wrong"})


async def test_earlier_messages_reach_the_model_byte_for_byte(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = f"PLAIN {uuid.uuid4().hex}"
    messages: list[Any] = [
        {"role": "system", "content": "Speak like a pirate.  \u2028Söhne"},
        {"role": "developer", "content": [{"type": "text", "text": "And be brief."}]},
        {"role": "user", "content": "  first\tquestion\r\n"},
        {"role": "assistant", "content": "first 答え 🜂\n"},
        {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "parts"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": word},
    ]
    async with asking(platform) as client, platform.client() as herma:
        raw = await client.chat.completions.with_raw_response.create(model="default", messages=messages)
        asked = (await model.wait_for_request(word)).messages
        assert asked[0]["role"] == "system"
        assert "Speak like a pirate.  \u2028Söhne\n\nAnd be brief." in asked[0]["content"]
        assert asked[1:] == [
            {"role": "user", "content": "  first\tquestion\r\n"},
            {"role": "assistant", "content": "first 答え 🜂\n"},
            {"role": "user", "content": "two\nparts"},
            {"role": "assistant", "content": "No."},
            {"role": "user", "content": word},
        ]
        transcript = await herma.transcript(raw.headers["x-herma-session"])
        assert [entry["content"] for entry in transcript[:-1]] == [m["content"] for m in asked[1:]]
        turn = raw.headers["x-herma-turn"]
        assert [entry["turn_id"] for entry in transcript] == ["", "", "", "", turn, turn]


async def test_each_request_with_its_whole_history_is_a_session_of_its_own(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    messages: list[Any] = []
    sessions = set()
    async with asking(platform) as client:
        for number in range(3):
            messages += user(f"PLAIN {word} {number}")
            raw = await client.chat.completions.with_raw_response.create(
                model="default", messages=messages
            )
            sessions.add(raw.headers["x-herma-session"])
            messages.append({"role": "assistant", "content": raw.parse().choices[0].message.content})
    assert len(sessions) == 3
    asked = [request.messages[1:] for request in model.matching(word)]
    assert asked == [messages[:1], messages[:3], messages[:5]]


async def test_a_session_is_continued_by_its_id(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    async with asking(platform) as client, platform.client() as herma:
        session = await herma.session()
        first_ = user(f"PLAIN {word}")
        continued = {"X-Herma-Session": session}
        for messages in (first_, [*first_, *user("unseen"), *user(f"LATER {word}")]):
            raw = await client.chat.completions.with_raw_response.create(
                model="default", messages=messages, extra_headers=continued, user="ignored"
            )
            assert raw.headers["x-herma-session"] == session
        asked = model.matching(f"LATER {word}")[0].messages[1:]
        assert [m["content"] for m in asked] == [f"PLAIN {word}", "plain answer", f"LATER {word}"]
        # It goes on over the API of Herma itself, too.
        assert await herma.answer(session, f"PLAIN {word} again") == "plain answer"
        for never in (str(uuid.uuid4()), "nonsense"):
            with pytest.raises(openai.NotFoundError) as refused:
                await client.chat.completions.create(
                    model="default", messages=first_, extra_headers={"X-Herma-Session": never}
                )
            assert (refused.value.code, refused.value.param) == ("session_not_found", "X-Herma-Session")
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="nobody", messages=first_, extra_headers=continued)
        assert unknown.value.code == "model_not_found"


async def test_a_user_continues_a_session(platform: TestPlatform, model: ScriptedModelServer) -> None:
    word, name = uuid.uuid4().hex, f"ann:{uuid.uuid4().hex[:8]}"
    earlier = [*user("before"), {"role": "assistant", "content": "noted"}]
    async with asking(platform) as client, platform.client() as herma:
        sessions = set()
        for messages in ([*earlier, *user(f"PLAIN {word}")], [*earlier, *user(f"LATER {word}")]):
            raw = await client.chat.completions.with_raw_response.create(
                model="default", messages=messages, user=name
            )
            sessions.add(raw.headers["x-herma-session"])
        (session,) = sessions
        asked = model.matching(f"LATER {word}")[0].messages[1:]
        assert [m["content"] for m in asked] == [
            "before",
            "noted",
            f"PLAIN {word}",
            "plain answer",
            f"LATER {word}",
        ]
        found = (await herma.http.get(f"/v1/sessions/{session}")).json()
        assert found["key"] == f"openai:default:{name}"
        # What a client names itself can never be that session.
        for key in (found["key"], "other:x"):
            taken = await herma.http.post("/v1/sessions", json={"key": key})
            assert taken.status_code == 400
            assert taken.json()["errors"][0]["field"] == "key"
        own = await herma.http.post("/v1/sessions", json={"key": f"default.{name[4:]}"})
        assert own.status_code == 201
        assert own.json()["id"] != session


async def test_another_tenants_session_does_not_exist(platform: TestPlatform) -> None:
    other = json.loads(
        platform.herma("tenant", "create", f"t{uuid.uuid4().hex[:8]}", "-o", "json").stdout
    )
    async with platform.client() as herma:
        session = await herma.session()
    name = uuid.uuid4().hex
    async with asking(platform) as mine, asking(platform, api_key=other["key"]) as theirs:
        with pytest.raises(openai.NotFoundError) as foreign:
            await theirs.chat.completions.create(
                model="default", messages=user("PLAIN"), extra_headers={"X-Herma-Session": session}
            )
        with pytest.raises(openai.NotFoundError) as never:
            await theirs.chat.completions.create(
                model="default",
                messages=user("PLAIN"),
                extra_headers={"X-Herma-Session": str(uuid.uuid4())},
            )
        assert foreign.value.body == never.value.body
        keyed = {
            (
                await who.chat.completions.with_raw_response.create(
                    model="default",
                    messages=user("PLAIN"),
                    user=name,
                    extra_headers={"Idempotency-Key": name},
                )
            ).headers["x-herma-session"]
            for who in (mine, theirs)
        }
        assert len(keyed) == 2


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "a\0b"}]}, "messages[0].content"),
        ({"messages": [*user("x"), {"role": "assistant", "content": "y"}]}, "messages[1].role"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
                ]
            },
            "messages[0].content",
        ),
        (
            {
                "messages": [
                    *user("x"),
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                        ],
                    },
                    {"role": "tool", "tool_call_id": "c", "content": "r"},
                    *user("y"),
                ]
            },
            "messages[1].tool_calls",
        ),
        ({"user": "a\nb"}, "user"),
        ({"messages": [{"role": "system", "content": "x" * 300_000}, *user("x")]}, "messages"),
        ({"messages": user("x" * 600_000)}, "messages"),
        ({"messages": [*user("x")] * 2_002}, "messages"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    platform: TestPlatform, client: openai.OpenAI, change: dict[str, Any], param: str
) -> None:
    before = platform.sql("authority", "SELECT count(*) FROM authority.sessions")
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{"model": "default", "messages": user("PLAIN"), **change})
    assert refused.value.type == "invalid_request_error"
    assert refused.value.param == param, refused.value.message
    assert platform.sql("authority", "SELECT count(*) FROM authority.sessions") == before


def test_refusals_are_the_clients_own_errors(platform: TestPlatform, client: openai.OpenAI) -> None:
    ask: dict[str, Any] = {"model": "default", "messages": user("PLAIN")}
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(**{**ask, "model": "nobody"})
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.AuthenticationError) as stranger:
        client.with_options(api_key="herma_aaaaaaaa_" + "x" * 43).chat.completions.create(**ask)
    assert stranger.value.code == "invalid_api_key"
    with pytest.raises(openai.APIStatusError) as large:
        client.chat.completions.create(model="default", messages=user("x" * 10_000_000))
    assert (large.value.status_code, large.value.code) == (413, "body_too_large")
    with httpx.Client(base_url=platform.up_file["http"]) as http:
        headers = {"Authorization": f"Bearer {platform.admin_key}"}
        wrong = http.get("/v1/chat/completions", headers=headers)
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
        broken = http.post(
            "/v1/chat/completions",
            content=b'{"model": ',
            headers={**headers, "Content-Type": "application/json"},
        )
        assert (broken.status_code, broken.json()["error"]["code"]) == (400, "invalid_json")


async def test_a_spent_budget_curtails_the_answer(platform: TestPlatform) -> None:
    async with asking(platform) as client:
        for word in ("FOREVER", "CURTAILED"):
            whole = await client.chat.completions.create(model="default", messages=user(word))
            assert whole.choices[0].finish_reason == "length"
        assert whole.choices[0].message.content == "as far as it goes"
        _, chunks = await streamed(
            await client.chat.completions.create(model="default", messages=user("FOREVER"), stream=True)
        )
        assert chunks[-1].choices[0].finish_reason == "length"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60),
        max_size=2,
    ),
    last=st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60
    ),
)
def test_streamed_and_whole_answers_are_the_same(
    client: openai.OpenAI, texts: list[str], last: str
) -> None:
    said = [*texts, last]
    ask: dict[str, Any] = {"model": "default", "messages": user(f"SCRIPT {json.dumps(said)}")}
    whole = client.chat.completions.create(**ask).choices[0].message.content
    with client.chat.completions.create(**ask, stream=True) as stream:
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert whole == "".join(pieces) == "\n\n".join(part for part in said if part)
