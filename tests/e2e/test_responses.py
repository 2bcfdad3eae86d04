"""OpenAI's Responses API against a platform, with OpenAI's own client and its types as the judge."""

from __future__ import annotations

import asyncio
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
from tests.support.openai_clients import asking
from tests.support.platform import TestPlatform
from tests.support.response_shapes import strict_event, strict_items, strict_response, strict_stream

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


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


@pytest.fixture
def http(platform: TestPlatform) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=platform.up_file["http"],
        headers={"Authorization": f"Bearer {platform.admin_key}"},
        timeout=60,
    ) as found:
        yield found


def events_of(answer: httpx.Response) -> list[Any]:
    """A stream's events; each is named as its data says."""
    assert answer.headers["content-type"] == "text/event-stream", answer.text
    events = []
    for block in answer.text.split("\n\n"):
        if not block or block.startswith(":"):
            continue
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def test_a_whole_answer(client: openai.OpenAI, http: httpx.Client, model: ScriptedModelServer) -> None:
    raw = client.responses.with_raw_response.create(
        model="default",
        input="PLAIN",
        instructions="Be kind.",
        metadata={"a": "ü"},
        user="ann",
        temperature=0.3,
        max_output_tokens=9,
        extra_body={"unknown": 1},
    )
    answer = raw.parse()
    assert answer.output_text == "plain answer"
    assert answer.id == f"resp_{raw.headers['x-herma-turn']}"
    found = strict_response(json.loads(raw.text))
    assert (found.status, found.model, found.background) == ("completed", "default", False)
    assert (found.metadata, found.user, found.previous_response_id) == ({"a": "ü"}, "ann", None)
    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.total_tokens) == (11, 2, 13)
    # It says the same whenever it is asked for.
    kept = http.get(f"/v1/responses/{answer.id}")
    assert kept.json() == json.loads(raw.text)
    events = events_of(http.get(f"/v1/responses/{answer.id}?stream=true"))
    last = strict_stream(events)
    assert last is not None
    assert events[-1]["response"] == kept.json()
    asked = model.matching("PLAIN")[-1].messages
    assert "Be kind." in asked[0]["content"]
    assert not model.refused


async def test_a_streamed_answer_comes_as_it_is_made(platform: TestPlatform) -> None:
    async with asking(platform) as client:
        stream = await client.responses.create(model="default", input="SLOWLY please", stream=True)
        loop = asyncio.get_running_loop()
        seen = [(loop.time(), event) async for event in stream]
    deltas = [(at, e.delta) for at, e in seen if e.type == "response.output_text.delta"]
    assert "".join(delta for _, delta in deltas) == "one two three four five six"
    # The first word was there long before the last.
    assert deltas[-1][0] - deltas[0][0] > 1
    last = strict_stream([event.to_dict() for _, event in seen])
    assert last is not None
    assert last.output_text == "one two three four five six"
    assert last.usage is not None


async def test_the_clients_streaming_helpers(platform: TestPlatform, client: openai.OpenAI) -> None:
    with client.responses.stream(model="default", input="TOOLS please") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert [item.content[0].text for item in final.output] == ["I look first.", "Then I answer."]  # type: ignore[union-attr]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert final.usage is not None
    assert final.usage.input_tokens == 22  # of both model calls
    async with (
        asking(platform) as asynchronous,
        asynchronous.responses.stream(model="default", input="PLAIN") as streamed,
    ):
        assert (await streamed.get_final_response()).output_text == "plain answer"
    # A response that is there is streamed again by its id.
    with client.responses.stream(response_id=final.id) as again:
        assert again.get_final_response().output_text == final.output_text
    with client.responses.stream(response_id=final.id, starting_after=4) as rest:
        assert [event.sequence_number for event in rest] == list(range(5, len(kinds)))


def test_a_conversation_by_previous_response(client: openai.OpenAI, model: ScriptedModelServer) -> None:
    word = uuid.uuid4().hex
    previous, sessions = None, set()
    for number in range(3):
        raw = client.responses.with_raw_response.create(
            model="default",
            input=f"PLAIN {word} {number}",
            previous_response_id=previous,
            instructions="Be brief.",
        )
        assert raw.parse().previous_response_id == previous
        strict_response(json.loads(raw.text))
        previous = raw.parse().id
        sessions.add(raw.headers["x-herma-session"])
    assert len(sessions) == 1
    asked = model.matching(f"{word} 2")[0].messages[1:]
    assert [m["content"] for m in asked] == [
        f"PLAIN {word} 0",
        "plain answer",
        f"PLAIN {word} 1",
        "plain answer",
        f"PLAIN {word} 2",
    ]


def test_a_conversation_branches(client: openai.OpenAI, model: ScriptedModelServer) -> None:
    word = uuid.uuid4().hex
    one = client.responses.create(model="default", input=f"TOOLS {word}")
    two = client.responses.create(model="default", input=f"PLAIN {word}", previous_response_id=one.id)
    fork = client.responses.create(
        model="default",
        input=[{"role": "user", "content": "a"}, {"role": "user", "content": f"LATER {word}"}],
        previous_response_id=one.id,
    )
    assert fork.output_text == "a later answer"
    asked = model.matching(f"LATER {word}")[0].messages[1:]
    assert [(m["role"], m["content"]) for m in asked] == [
        ("user", f"TOOLS {word}"),
        ("assistant", "I look first."),
        ("assistant", "Then I answer."),
        ("user", f"a\n\nLATER {word}"),
    ]
    # Other instructions are another branch too; the first one goes on as it was.
    other = client.responses.create(
        model="default", input=f"LATER {word} x", previous_response_id=two.id, instructions="Be rude."
    )
    assert "Be rude." in model.matching(f"LATER {word} x")[0].messages[0]["content"]
    assert other.previous_response_id == two.id
    client.responses.create(model="default", input=f"LATER {word} y", previous_response_id=two.id)
    asked = model.matching(f"LATER {word} y")[0].messages
    assert "Be rude." not in asked[0]["content"]
    assert [m["role"] for m in asked[1:]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


async def test_many_that_go_on_after_one_response_do_not_read_each_other(
    platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    async with asking(platform) as client:
        one = await client.responses.create(model="default", input=f"PLAIN {word}")
        await asyncio.gather(
            *(
                client.responses.create(
                    model="default", input=f"LATER {word} {number}", previous_response_id=one.id
                )
                for number in range(6)
            )
        )
    for request in model.matching(f"LATER {word}"):
        assert len(request.messages) == 4


def test_earlier_items_are_imported(client: openai.OpenAI, model: ScriptedModelServer) -> None:
    word = uuid.uuid4().hex
    first = client.responses.create(model="default", input="TOOLS please")
    items: list[Any] = [
        {"role": "developer", "content": "Speak like a pirate."},
        {"role": "user", "content": [{"type": "input_text", "text": "two"}] * 2},
        *[item.to_dict() for item in first.output],
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "message", "role": "user", "content": f"PLAIN {word}"},
    ]
    raw = client.responses.with_raw_response.create(model="default", input=items)
    asked = model.matching(word)[0].messages
    assert "Speak like a pirate." in asked[0]["content"]
    said = [
        ("user", "two\ntwo"),
        ("assistant", "I look first."),
        ("assistant", "Then I answer."),
        ("assistant", "No."),
        ("user", f"PLAIN {word}"),
    ]
    assert [(m["role"], m["content"]) for m in asked[1:]] == said
    # And listed as what the request said, page by page.
    page = client.responses.input_items.list(raw.parse().id, limit=2)
    found = [(item.role, item.content[0].text) for item in page]  # type: ignore[union-attr]
    assert found == said[::-1]
    raw_page = client.responses.input_items.with_raw_response.list(raw.parse().id, order="asc", limit=3)
    listed = json.loads(raw_page.text)
    assert [entry["role"] for entry in listed["data"]] == ["user", "assistant", "assistant"]
    strict_items({**listed, "data": [d for d in listed["data"] if d["role"] == "user"]})
    assert listed["has_more"] is True
    # What a request goes on from is not what it said.
    next_ = client.responses.create(model="default", input="PLAIN", previous_response_id=raw.parse().id)
    (only,) = client.responses.input_items.list(next_.id).data
    assert only.content[0].text == "PLAIN"  # type: ignore[union-attr]


async def test_a_session_is_continued_by_its_name(
    platform: TestPlatform, client: openai.OpenAI, model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    async with platform.client() as herma:
        session = await herma.session()
        for more in (
            {"conversation": session},
            {"conversation": {"id": session}},
            {"extra_headers": {"X-Herma-Session": session}},
        ):
            answer = client.responses.create(model="default", input=f"PLAIN {word}", **more)  # type: ignore[call-overload]
            assert answer.conversation.id == session
            kept = client.responses.retrieve(answer.id)
            assert kept.conversation is not None
            assert kept.conversation.id == session
        assert len(model.matching(word)[-1].messages) == 6
        # Turns that came another way are responses too.
        admitted = await herma.submit(session, f"LATER {word}")
        await herma.ended(admitted["turn_id"])
        native = client.responses.retrieve(f"resp_{admitted['turn_id']}")
        assert (native.output_text, native.model) == ("a later answer", "default")
        next_ = client.responses.create(
            model="default", input=f"PLAIN {word} next", previous_response_id=native.id
        )
        assert len(await herma.transcript(session)) == 10
        for response in (native, next_):
            with pytest.raises(openai.ConflictError) as refused:
                client.responses.delete(response.id)
            assert refused.value.code == "session_goes_on"
    for never in (str(uuid.uuid4()), "conv_nonsense"):
        with pytest.raises(openai.NotFoundError) as unknown:
            client.responses.create(model="default", input="PLAIN", conversation=never)
        assert (unknown.value.code, unknown.value.param) == ("conversation_not_found", "conversation")


def test_a_response_that_is_alone_in_its_session_is_deleted_with_it(
    platform: TestPlatform, client: openai.OpenAI
) -> None:
    one = client.responses.create(model="default", input="PLAIN secretly")
    two = client.responses.create(model="default", input="PLAIN", previous_response_id=one.id)
    for response in (one, two):
        with pytest.raises(openai.ConflictError):
            client.responses.delete(response.id)
    fork = client.responses.create(model="default", input="PLAIN", previous_response_id=one.id)
    client.responses.delete(fork.id)
    client.responses.retrieve(one.id)
    alone = client.responses.create(model="default", input="PLAIN alone")
    client.responses.delete(alone.id)
    for attempt in (
        lambda: client.responses.retrieve(alone.id),
        lambda: client.responses.delete(alone.id),
        lambda: client.responses.cancel(alone.id),
        lambda: client.responses.input_items.list(alone.id),
        lambda: client.responses.create(model="default", input="x", previous_response_id=alone.id),
    ):
        with pytest.raises(openai.NotFoundError):
            attempt()
    assert platform.sql("authority", "SELECT 1 FROM authority.turns WHERE content = 'PLAIN alone'") == []


def test_a_spent_budget_is_incomplete(client: openai.OpenAI, http: httpx.Client) -> None:
    for word in ("FOREVER", "CURTAILED"):
        raw = client.responses.with_raw_response.create(model="default", input=word)
        found = strict_response(json.loads(raw.text))
        assert found.status == "incomplete"
        assert found.incomplete_details is not None
        assert found.incomplete_details.reason == "max_output_tokens"
        events = events_of(
            http.post("/v1/responses", json={"model": "default", "input": word, "stream": True})
        )
        last = strict_stream(events)
        assert last is not None
        assert (events[-1]["type"], last.status) == ("response.incomplete", "incomplete")
    assert found.output_text == "as far as it goes"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": [{"type": "function", "name": "f", "parameters": {}}]}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}}, "text"),
        ({"text": "x"}, "text"),
        ({"store": False}, "store"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"input": []}, "input"),
        ({"input": ""}, "input[0].content"),
        ({"input": " \n"}, "input[0].content"),
        ({"input": None}, "input"),
        ({"input": 7}, "input"),
        ({"input": {"role": "user"}}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": "a\0b"}, "input[0].content"),
        ({"input": [{"content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        (
            {"input": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
            "input[1].role",
        ),
        ({"input": [{"role": "system", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input[0].role"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        (
            {"input": [{"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}]},
            "input[0]",
        ),
        ({"input": [{"type": {}, "role": "user", "content": "x"}]}, "input[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content",
        ),
        ({"input": [{"role": "user", "content": [{"type": ["input_text"]}]}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [7]}]}, "input[0].content"),
        ({"user": "a\nb"}, "user"),
        ({"model": ""}, "model"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"metadata": {"x" * 65: "a"}}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {"a": "\0"}}, "metadata.a"),
        ({"metadata": {"a\0": ""}}, "metadata"),
        ({"instructions": "x" * 300_000}, "instructions"),
        ({"instructions": "\0"}, "instructions"),
        ({"input": "x" * 600_000}, "input"),
        ({"input": [{"role": "user", "content": "x"}] * 2_002}, "input"),
        ({"previous_response_id": "resp_x", "conversation": "y"}, "previous_response_id"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    platform: TestPlatform, http: httpx.Client, change: dict[str, Any], param: str
) -> None:
    before = platform.sql("authority", "SELECT count(*) FROM authority.sessions")
    ask = {"model": "default", "input": "PLAIN", **change}
    if change.get("previous_response_id"):
        one = http.post("/v1/responses", json={"model": "default", "input": "PLAIN"}).json()
        ask["previous_response_id"] = one["id"]
        before = platform.sql("authority", "SELECT count(*) FROM authority.sessions")
    answer = http.post("/v1/responses", json=ask)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param, error["message"]
    assert platform.sql("authority", "SELECT count(*) FROM authority.sessions") == before


def test_lone_surrogates_are_refused_wherever_they_are(http: httpx.Client) -> None:
    bodies = [
        rb'{"model": "default", "input": "\ud800"}',
        rb'{"model": "\ud800", "input": "x"}',
        rb'{"model": "default", "input": "x", "instructions": "\ud800"}',
        rb'{"model": "default", "input": "x", "metadata": {"a": "\ud800"}}',
        rb'{"model": "default", "input": "x", "metadata": {"\ud800": "a"}}',
        rb'{"model": "default", "input": "x", "user": "\ud800"}',
        rb'{"model": "default", "input": "x", "previous_response_id": "resp_\ud800"}',
        rb'{"model": "default", "input": "x", "conversation": "\ud800"}',
    ]
    for body in bodies:
        answer = http.post("/v1/responses", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 404), (body, answer.text)
        assert "error" in answer.json()


def test_continuations_take_only_what_the_user_adds(client: openai.OpenAI) -> None:
    one = client.responses.create(model="default", input="PLAIN")
    items: list[Any] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y"},
        {"role": "user", "content": "PLAIN"},
    ]
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="default", input=items, previous_response_id=one.id)
    assert refused.value.param == "input"


def test_refusals_are_the_clients_own_errors(platform: TestPlatform, client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.responses.create(model="nobody", input="PLAIN")
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    one = client.responses.create(model="default", input="PLAIN")
    with pytest.raises(openai.NotFoundError) as model:
        client.responses.create(model="nobody", input="PLAIN", previous_response_id=one.id)
    assert model.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="herma_aaaaaaaa_" + "x" * 43).responses.create(
            model="default", input="x"
        )
    with pytest.raises(openai.InternalServerError) as failed:
        client.responses.create(model="default", input="DENIED")
    assert (failed.value.status_code, failed.value.code) == (502, "provider_exhausted")
    turn = failed.value.response.headers["x-herma-turn"]
    kept = client.responses.retrieve(f"resp_{turn}")
    assert kept.status == "failed"
    assert kept.error is not None
    assert kept.error.code == "server_error"
    assert "provider_exhausted" in kept.error.message
    with client.responses.create(model="default", input="DENIED", stream=True) as stream:
        events = [event.to_dict() for event in stream]
    last = strict_stream(events)
    assert last is not None
    assert last.status == "failed"


async def test_what_is_not_yours_does_not_exist(platform: TestPlatform, client: openai.OpenAI) -> None:
    other = json.loads(
        platform.herma("tenant", "create", f"t{uuid.uuid4().hex[:8]}", "-o", "json").stdout
    )
    colleague = json.loads(
        platform.herma(
            "principal", "add", f"p{uuid.uuid4().hex[:8]}", "--role", "admin", "-o", "json"
        ).stdout
    )
    key = json.loads(
        platform.herma("key", "create", "--principal", colleague["id"], "-o", "json").stdout
    )["secret"]
    mine = client.responses.create(model="default", input="PLAIN", metadata={"a": "b"})
    never = f"resp_{uuid.uuid4()}"
    strange = [
        "nonsense",
        "resp_",
        "resp_" + "9" * 3000,
        mine.id.upper(),
        f"{mine.id}%00",
        "%00",
        "..%2f",
    ]
    before = platform.sql("authority", "SELECT count(*) FROM authority.turns")
    async with httpx.AsyncClient(base_url=platform.up_file["http"], timeout=30) as http:

        async def tried(key: str, response_id: str) -> list[tuple[int, Any]]:
            headers = {"Authorization": f"Bearer {key}"}
            answers = [
                await http.request(method, f"/v1/responses/{response_id}{rest}", headers=headers)
                for method, rest in (
                    ("GET", ""),
                    ("GET", "?stream=true&starting_after=1"),
                    ("GET", "/input_items"),
                    ("POST", "/cancel"),
                    ("DELETE", ""),
                )
            ]
            ask = {"model": "default", "input": "PLAIN", "previous_response_id": response_id}
            answers.append(await http.post("/v1/responses", json=ask, headers=headers))
            return [(answer.status_code, answer.json()) for answer in answers]

        expected = await tried(platform.admin_key, never)
        assert {status for status, _ in expected} == {404}
        codes = [body["error"]["code"] for _, body in expected]
        assert codes == ["response_not_found"] * 5 + ["previous_response_not_found"]
        for who in (other["key"], key):
            assert await tried(who, mine.id) == expected
        for name in strange:
            for status, body in await tried(platform.admin_key, name):
                assert status == 404, (name, body)
                assert "error" in body, (name, body)
    assert platform.sql("authority", "SELECT count(*) FROM authority.turns") == before
    assert client.responses.retrieve(mine.id).output_text == "plain answer"


def test_litellm_is_a_client(platform: TestPlatform) -> None:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a list at import
    import litellm

    options: dict[str, Any] = {
        "model": "openai/default",
        "api_base": f"{platform.up_file['http']}/v1",
        "api_key": platform.admin_key,
    }
    whole: Any = litellm.responses(input="PLAIN", **options)
    assert whole.output[0].content[0].text == "plain answer"
    assert whole.usage.total_tokens == 13
    stream: Any = litellm.responses(input="TOOLS please", stream=True, **options)
    events = list(stream)
    said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert said == "I look first.Then I answer."
    assert events[-1].type == "response.completed"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS, max_size=2), last=TEXTS.filter(bool), data=st.data())
def test_streamed_whole_and_resumed_answers_are_the_same(
    http: httpx.Client, texts: list[str], last: str, data: st.DataObject
) -> None:
    ask = {"model": "default", "input": f"SCRIPT {json.dumps([*texts, last])}"}
    live = events_of(http.post("/v1/responses", json={**ask, "stream": True}))
    response = strict_stream(live)
    assert response is not None
    assert [item.content[0].text for item in response.output] == [t for t in [*texts, last] if t]  # type: ignore[union-attr]
    again = http.get(f"/v1/responses/{response.id}").json()
    assert again == live[-1]["response"]
    after = data.draw(st.integers(0, len(live) - 1))
    rest = events_of(http.get(f"/v1/responses/{response.id}?stream=true&starting_after={after}"))
    assert rest == live[after + 1 :]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "model",
                        "input",
                        "type",
                        "role",
                        "content",
                        "text",
                        "conversation",
                        "metadata",
                        "id",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_nonsense_is_refused_and_does_nothing(
    platform: TestPlatform, http: httpx.Client, body: Any
) -> None:
    ask = {"model": "nobody", **body} if isinstance(body, dict) else body
    answer = http.post("/v1/responses", json=ask)
    assert answer.status_code in (400, 404), answer.text
    assert answer.json().keys() == {"error"}


def test_an_event_that_is_no_event_fails_the_judge() -> None:
    good = {"type": "response.output_text.delta", "sequence_number": 3, "item_id": "m", "output_index": 0}
    good |= {"content_index": 0, "delta": "x", "logprobs": []}
    strict_event(good)
    for wrong in ({"delta": 7}, {"more": 1}, {"sequence_number": "3"}):
        with pytest.raises((ValueError, AssertionError)):
            strict_event({**good, **wrong})
