"""The fold is pure, and the same ledger gives the same bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_server import wrong_with

from herma.agent_runner.domain.fold import CallModel, End, RunCalls, next_step
from herma.agent_runner.domain.ledger import Call, CallResult, CallState, Ledger, Message
from herma.agent_runner.domain.prompt import build_system_prompt, render_messages
from herma.agent_runner.domain.tool import ArgumentError, ToolRegistry
from herma.agent_runner.tools import CORE_TOOLS


def ledger(*messages: Message, iterations: int = 0, limit: int = 5, stop: bool = False) -> Ledger:
    return Ledger("t", messages, "", iterations, limit, stop)


USER = Message("user", "hello", "t")


def asked(*states: CallState) -> Message:
    calls = tuple(Call(f"c{i}", "terminal", "{}", state) for i, state in enumerate(states))
    return Message("assistant", "", "t", calls)


def test_a_new_turn_asks_the_model() -> None:
    assert next_step(ledger(USER)) == CallModel()
    old = Message("assistant", "earlier answer", "another turn")
    assert next_step(ledger(old, USER)) == CallModel()


def test_an_answer_without_calls_ends_the_turn() -> None:
    assert next_step(ledger(USER, Message("assistant", "hi", "t"))) == End("completed", "final_answer")


def test_open_calls_are_brought_to_their_results_first() -> None:
    message = asked(CallState.COMPLETED, CallState.RUNNING, CallState.PROPOSED)
    step = next_step(ledger(USER, message))
    assert isinstance(step, RunCalls)
    assert [call.id for call in step.calls] == ["c1", "c2"]


def test_closed_calls_lead_back_to_the_model() -> None:
    message = asked(CallState.COMPLETED, CallState.OUTCOME_UNKNOWN, CallState.CANCELLED)
    assert next_step(ledger(USER, message, iterations=1)) == CallModel()


def test_the_iteration_budget_ends_the_turn_but_not_before_its_calls() -> None:
    done = next_step(ledger(USER, asked(CallState.COMPLETED), iterations=5))
    assert isinstance(done, End)
    assert done.exit_reason == "iteration_budget"
    assert isinstance(next_step(ledger(USER, asked(CallState.PROPOSED), iterations=5)), RunCalls)


def test_an_interruption_ends_the_turn_whatever_is_open() -> None:
    found = next_step(ledger(USER, asked(CallState.RUNNING), stop=True))
    assert found == End("interrupted", "interrupted_by_user")


@given(st.permutations(range(4)), st.integers(0, 3))
def test_results_are_rendered_in_the_order_of_the_calls(order: list[int], earlier: int) -> None:
    start = ledger(USER).with_answer(
        "", [Call(f"c{i}", "terminal", "{}", CallState.PROPOSED) for i in range(4)]
    )
    first = {f"c{i}": CallResult(f"r{i}") for i in order[:earlier]}
    rest = {f"c{i}": CallResult(f"r{i}") for i in order[earlier:]}
    folded = start.with_results(first).with_results(rest) if first else start.with_results(rest)
    rendered = render_messages(folded, "system")
    assert [m["content"] for m in rendered if m["role"] == "tool"] == ["r0", "r1", "r2", "r3"]
    assert wrong_with(rendered) == ""


def test_the_callers_instructions_follow_the_persona_and_precede_what_changes() -> None:
    now = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
    prompt = build_system_prompt("PERSONA", "NOTES", now, instructions=" INSTRUCTIONS\n")
    assert prompt.endswith(
        "\n\nPERSONA\n\nINSTRUCTIONS\n\nNOTES\n\nToday is Tuesday, 01 December 2026 (UTC)."
    )
    without = build_system_prompt("PERSONA", "NOTES", now)
    assert without == prompt.replace("INSTRUCTIONS\n\n", "")


def test_an_imported_answer_does_not_end_the_turn() -> None:
    imported = (Message("user", "before", ""), Message("assistant", "imported", ""))
    assert next_step(ledger(*imported, USER)) == CallModel()
    rendered = render_messages(ledger(*imported, USER), "system")
    assert [m["content"] for m in rendered] == ["system", "before", "imported", "hello"]


@given(st.text(), st.text())
def test_the_same_ledger_gives_the_same_bytes(persona: str, content: str) -> None:
    now = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
    messages = ledger(Message("user", content, "t"), asked(CallState.COMPLETED))
    one = json.dumps(render_messages(messages, build_system_prompt(persona, "", now)))
    two = json.dumps(render_messages(messages, build_system_prompt(persona, "", now)))
    assert one == two


def test_the_prompt_of_a_model_without_tools_does_not_speak_of_them() -> None:
    now = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
    assert "tool" in build_system_prompt("", "", now)
    assert "tool" not in build_system_prompt("", "", now, tools=False)


def test_a_tool_that_is_not_offered_is_only_found_for_a_call_that_runs() -> None:
    registry = ToolRegistry({tool.name: tool for tool in CORE_TOOLS}, offered=False)
    assert registry.definitions == []
    with pytest.raises(ArgumentError, match="The tools are: none"):
        registry.parse("terminal", '{"command": "true"}')
    tool, _ = registry.parse("terminal", '{"command": "true"}', started=True)
    assert tool.name == "terminal"
