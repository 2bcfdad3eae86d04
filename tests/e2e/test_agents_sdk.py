"""OpenAI's Agents SDK as a client: its agents answer by turns of Herma's profiles."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    ModelBehaviorError,
    ModelSettings,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)

from tests.conftest import platform_for
from tests.support.model_server import ScriptedModelServer, calls, fault_status, text
from tests.support.openai_clients import asking
from tests.support.platform import TestPlatform

# Its traces would go to OpenAI.
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    model.on("PLAIN", text("plain answer"))
    model.on("LATER", text("a later answer"))
    model.on(
        "TOOLS",
        calls(("terminal", {"command": "echo found"}), text="I look first."),
        text("Then I answer."),
    )
    model.on("DENIED", fault_status(400))
    yield from platform_for(model, "local", HERMA_LEASE_TTL_SECONDS="60")


@pytest.fixture
async def responses(platform: TestPlatform) -> AsyncIterator[OpenAIResponsesModel]:
    async with asking(platform) as client:
        yield OpenAIResponsesModel("default", client)


@pytest.fixture
def agent(responses: OpenAIResponsesModel) -> Agent[Any]:
    settings = ModelSettings(temperature=0.1, metadata={"team": "a"})
    return Agent("helper", instructions="Be kind.", model=responses, model_settings=settings)


async def test_an_agent_answers(agent: Agent[Any], model: ScriptedModelServer) -> None:
    word = uuid.uuid4().hex
    result = await Runner.run(agent, f"PLAIN {word}", run_config=QUIET)
    assert result.final_output == "plain answer"
    assert result.last_response_id is not None
    assert result.last_response_id.startswith("resp_")
    usage = result.context_wrapper.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (1, 11, 2)
    assert "Be kind." in model.matching(word)[0].messages[0]["content"]


async def test_hermas_tools_run_at_herma(agent: Agent[Any]) -> None:
    result = await Runner.run(agent, "TOOLS please", run_config=QUIET, max_turns=1)
    assert result.final_output == "Then I answer."
    assert [item.type for item in result.new_items] == ["message_output_item", "message_output_item"]


async def test_an_answer_is_streamed(agent: Agent[Any]) -> None:
    result = Runner.run_streamed(agent, "TOOLS please", run_config=QUIET, max_turns=1)
    said = ""
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            said += event.data.delta
    assert said == "I look first.Then I answer."
    assert result.final_output == "Then I answer."


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_conversation_by_previous_response(
    agent: Agent[Any], model: ScriptedModelServer, streaming: bool
) -> None:
    word = uuid.uuid4().hex
    previous = None
    for said in (f"PLAIN {word}", f"LATER {word}"):
        if streaming:
            streamed = Runner.run_streamed(agent, said, previous_response_id=previous, run_config=QUIET)
            async for _ in streamed.stream_events():
                pass
            previous, answer = streamed.last_response_id, streamed.final_output
        else:
            result = await Runner.run(agent, said, previous_response_id=previous, run_config=QUIET)
            previous, answer = result.last_response_id, result.final_output
    assert answer == "a later answer"
    asked = model.matching(f"LATER {word}")[0].messages[1:]
    assert [m["content"] for m in asked] == [f"PLAIN {word}", "plain answer", f"LATER {word}"]


async def test_a_conversation_by_its_name(
    agent: Agent[Any], platform: TestPlatform, model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    async with platform.client() as herma:
        session = await herma.session()
        for said in (f"PLAIN {word}", f"LATER {word}"):
            await Runner.run(agent, said, conversation_id=session, run_config=QUIET)
        assert [m["content"] for m in await herma.transcript(session)] == [
            f"PLAIN {word}",
            "plain answer",
            f"LATER {word}",
            "a later answer",
        ]


async def test_a_conversation_that_the_client_keeps(
    agent: Agent[Any], model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    first = await Runner.run(agent, f"TOOLS {word}", run_config=QUIET)
    again = [*first.to_input_list(), {"role": "user", "content": f"LATER {word}"}]
    await Runner.run(agent, again, run_config=QUIET)  # type: ignore[arg-type]
    kept = SQLiteSession(word)
    for said in (f"TOOLS {word}", f"LATER {word}"):
        await Runner.run(agent, said, session=kept, run_config=QUIET)
    for request in model.matching(f"LATER {word}"):
        assert [m["content"] for m in request.messages[1:]] == [
            f"TOOLS {word}",
            "I look first.",
            "Then I answer.",
            f"LATER {word}",
        ]


async def test_agents_with_other_instructions_share_a_conversation(
    agent: Agent[Any], model: ScriptedModelServer
) -> None:
    word = uuid.uuid4().hex
    one = await Runner.run(agent, f"PLAIN {word}", run_config=QUIET)
    critic = agent.clone(name="critic", instructions="Be strict.")
    await Runner.run(critic, f"LATER {word}", previous_response_id=one.last_response_id, run_config=QUIET)
    asked = model.matching(f"LATER {word}")[0].messages
    assert "Be strict." in asked[0]["content"]
    assert "Be kind." not in asked[0]["content"]
    assert [m["content"] for m in asked[1:]] == [f"PLAIN {word}", "plain answer", f"LATER {word}"]


async def test_tools_of_the_client_are_refused(agent: Agent[Any]) -> None:
    @function_tool
    def weather(city: str) -> str:
        """The weather."""
        return f"sunny in {city}"

    with pytest.raises(openai.BadRequestError) as refused:
        await Runner.run(agent.clone(tools=[weather]), "PLAIN", run_config=QUIET)
    assert refused.value.param == "tools"


async def test_a_failed_turn_is_the_sdks_error(agent: Agent[Any]) -> None:
    with pytest.raises(openai.InternalServerError) as failed:
        await Runner.run(agent, "DENIED", run_config=QUIET)
    assert failed.value.code == "provider_exhausted"
    streamed = Runner.run_streamed(agent, "DENIED", run_config=QUIET)
    with pytest.raises(ModelBehaviorError, match="failed"):
        async for _ in streamed.stream_events():
            pass
