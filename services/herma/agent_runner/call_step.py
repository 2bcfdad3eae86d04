"""One step of the fold: bring the calls of a message to their results.

Invariant (design, "Calls"): `running` with the sandbox's instance is durable before a tool starts;
what an earlier attempt left `running` is joined, repeated only where repeating is harmless, and
otherwise reported as unknown.  A mutating call is never started twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from herma.agent_runner import wire
from herma.agent_runner.domain.ledger import Call, CallResult, CallState
from herma.agent_runner.domain.tool import (
    ArgumentError,
    Effect,
    MemoryTool,
    SandboxTool,
    Tool,
    ToolRegistry,
)
from herma.agent_runner.journal import Journal
from herma.agent_runner.lease_keeper import LeaseKeeper
from herma.agent_runner.memory import TurnMemory
from herma.agent_runner.sandbox import SandboxClient, SessionWorkspace
from herma.api.lease.v1 import lease_pb2
from herma.common.errors import HermaError, Kind, LeaseLost, SandboxLost, Unavailable

# Until the command policy exists, every call is allowed, and this is recorded as the rule.
RULE = "none"

_UNKNOWN = CallResult(
    "The outcome of this call is unknown: it was started, and the sandbox that it ran in is gone. "
    "It may or may not have taken effect; processes that it left running are gone, files are as "
    "they were. Check before you do it again.",
    is_error=True,
    state=CallState.OUTCOME_UNKNOWN,
)


@dataclass(frozen=True, slots=True)
class _Planned:
    call: Call
    tool: Tool
    arguments: Any
    # None for a tool that needs no sandbox.
    workspace: SessionWorkspace | None
    # Where it was started by an earlier attempt, or is started now; empty without a sandbox.
    instance: str
    attach: bool


class CallStep:
    """Runs calls on behalf of one turn."""

    def __init__(
        self,
        registry: ToolRegistry,
        sandboxes: SandboxClient,
        memory: TurnMemory,
        journal: Journal,
        keeper: LeaseKeeper,
    ) -> None:
        self._registry = registry
        self._sandboxes = sandboxes
        self._memory = memory
        self._journal = journal
        self._keeper = keeper
        self._workspace: SessionWorkspace | None = None
        self._tracer = trace.get_tracer("herma.agent_runner")

    @property
    def used_sandbox(self) -> bool:
        """This attempt made a sandbox ready."""
        return self._workspace is not None

    async def run(self, calls: Sequence[Call]) -> dict[str, CallResult]:
        """Brings calls to their results, concurrently; each result is appended as it comes.

        Raises:
            LeaseLost: when the lease is.
            Unavailable: when the sandbox infrastructure stayed away.
        """
        results: dict[str, CallResult] = {}
        parsed = []
        for call in calls:
            try:
                started = call.state is CallState.RUNNING
                found = self._registry.parse(call.tool, call.arguments, started=started)
                parsed.append((call, *found))
            except ArgumentError as error:
                results[call.id] = CallResult(str(error), is_error=True)
        needs_sandbox = any(isinstance(tool, SandboxTool) for _, tool, _ in parsed)
        if needs_sandbox and self._workspace is None:
            self._workspace = await self._sandboxes.acquire(lambda: self._keeper.turn_token)
        await self._start(parsed, results)
        planned = [
            self._plan(call, tool, arguments)
            for call, tool, arguments in parsed
            if call.id not in results
        ]
        async with asyncio.TaskGroup() as group:
            for plan in planned:
                group.create_task(self._finish(plan, results))
        return results

    async def kill(self, calls: Sequence[Call]) -> None:
        """Kills the commands of calls that are interrupted; best effort."""
        if self._workspace is None:
            return
        await asyncio.gather(*(self._workspace.kill(call.id) for call in calls), return_exceptions=True)

    async def _start(
        self, parsed: Sequence[tuple[Call, Tool, Any]], results: dict[str, CallResult]
    ) -> None:
        operations: list[lease_pb2.Operation] = []
        for call, tool, _ in parsed:
            instance = self._instance_for(tool)
            if call.state is CallState.RUNNING:
                if call.instance == instance:
                    continue
                if tool.effect is Effect.MUTATE:
                    results[call.id] = _UNKNOWN
                    continue
            elif call.state is CallState.PROPOSED:
                operations.append(wire.allow_call(call.id, RULE))
            operations.append(wire.start_call(call.id, instance))
        operations.extend(wire.complete_call(call_id, result) for call_id, result in results.items())
        if operations:
            await self._journal.append(operations)

    def _plan(self, call: Call, tool: Tool, arguments: Any) -> _Planned:
        return _Planned(
            call,
            tool,
            arguments,
            self._workspace if isinstance(tool, SandboxTool) else None,
            self._instance_for(tool),
            attach=call.state is CallState.RUNNING,
        )

    def _instance_for(self, tool: Tool) -> str:
        if isinstance(tool, SandboxTool) and self._workspace is not None:
            return self._workspace.instance
        return ""

    async def _finish(self, plan: _Planned, results: dict[str, CallResult]) -> None:
        with self._tracer.start_as_current_span(
            f"execute_tool {plan.tool.name}",
            kind=SpanKind.INTERNAL,
            record_exception=False,
            set_status_on_exception=False,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": plan.tool.name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": plan.call.id,
            },
        ) as span:
            result = await self._run(plan)
            if result.is_error:
                span.set_attribute("error.type", result.state.value)
                span.set_status(Status(StatusCode.ERROR))
        await self._journal.append([wire.complete_call(plan.call.id, result)])
        results[plan.call.id] = result

    async def _run(self, plan: _Planned) -> CallResult:
        tool = plan.tool
        try:
            if isinstance(tool, MemoryTool):
                return await tool.run_on_memory(plan.call.id, plan.arguments, self._memory)
            assert isinstance(tool, SandboxTool)
            assert plan.workspace is not None
            return await tool.run(
                plan.call.id, plan.arguments, plan.workspace, plan.instance, plan.attach
            )
        except SandboxLost:
            # The next use finds or makes another one.
            self._workspace = None
            return _UNKNOWN
        except LeaseLost:
            self._keeper.give_up()
            raise
        except Unavailable:
            raise
        except HermaError as error:
            if error.kind in (Kind.INVALID, Kind.NOT_FOUND, Kind.FORBIDDEN, Kind.EXHAUSTED):
                return CallResult(f"The call failed: {error.message}", is_error=True)
            raise
