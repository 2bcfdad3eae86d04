"""What a tool is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ValidationError

from herma.agent_runner.domain.ledger import CallResult
from herma.agent_runner.domain.memory import MemoryAccess
from herma.agent_runner.domain.provider import ToolDefinition


class Effect(StrEnum):
    """What running a tool twice means."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    MUTATE = "mutate"


class Workspace(Protocol):
    """The session's sandbox, as tools see it.  Raises the errors of `common.errors`."""

    @property
    def instance(self) -> str:
        """The incarnation."""
        ...

    async def run_command(
        self, call_id: str, instance: str, command: str, directory: str, timeout: float, attach: bool
    ) -> CommandOutcome:
        """Runs a command at most once under the call id, or joins an earlier attempt's run."""
        ...

    async def read_file(self, path: bytes, offset: int, limit: int) -> FileContent:
        """Reads a piece of a file."""
        ...

    async def write_file(self, call_id: str, path: bytes, content: bytes) -> bool:
        """Replaces a file atomically; whether it is new."""
        ...


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How a command ended.  `output` is all of it, or its head and tail around a gap."""

    exit_code: int
    signal: int
    timed_out: bool
    head: bytes
    tail: bytes
    total_bytes: int
    spill_path: str
    seconds: float


@dataclass(frozen=True, slots=True)
class FileContent:
    """A piece of a file."""

    content: bytes
    size: int


@runtime_checkable
class Tool(Protocol):
    """One tool, as the model sees it and policy judges it."""

    name: str
    description: str
    arguments: type[BaseModel]
    effect: Effect


@runtime_checkable
class SandboxTool(Tool, Protocol):
    """A tool that works in the session's sandbox."""

    async def run(
        self, call_id: str, arguments: Any, workspace: Workspace, instance: str, attach: bool
    ) -> CallResult:
        """Runs the call, or with `attach` joins what an earlier attempt started on `instance`."""
        ...


@runtime_checkable
class MemoryTool(Tool, Protocol):
    """A tool that works on memory: it needs no sandbox, and untrusted turns do not have it."""

    async def run_on_memory(self, call_id: str, arguments: Any, memory: MemoryAccess) -> CallResult:
        """Runs the call; under the same call id it takes effect once."""
        ...


def definition_of(tool: Tool) -> ToolDefinition:
    """The tool as the model sees it."""
    schema = tool.arguments.model_json_schema()
    schema.pop("title", None)
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
    return ToolDefinition(tool.name, tool.description, schema)


class ArgumentError(Exception):
    """The model's arguments do not fit; the text tells it what to change."""


class ToolRegistry:
    """The tools that a session sees.

    Args:
        tools: All there are.
        offered: Whether the model is offered them. When not, only calls that an earlier attempt started
            still find theirs.
    """

    def __init__(self, tools: Mapping[str, Tool], *, offered: bool = True) -> None:
        self._tools = dict(tools)
        self._offered = offered
        self.definitions = (
            [definition_of(self._tools[name]) for name in sorted(self._tools)] if offered else []
        )

    def only(self, names: frozenset[str] | None) -> ToolRegistry:
        """A registry of these tools alone; None for all."""
        if names is None:
            return self
        return self._with({name: tool for name, tool in self._tools.items() if name in names})

    def untrusted(self) -> ToolRegistry:
        """The tools of a turn on untrusted input."""
        return self._with(
            {name: tool for name, tool in self._tools.items() if not isinstance(tool, MemoryTool)}
        )

    def _with(self, tools: Mapping[str, Tool]) -> ToolRegistry:
        return ToolRegistry(tools, offered=self._offered)

    @property
    def has_memory(self) -> bool:
        """Whether the model is offered a tool that works on memory."""
        return self._offered and any(isinstance(tool, MemoryTool) for tool in self._tools.values())

    def parse(self, name: str, arguments: str, *, started: bool = False) -> tuple[Tool, BaseModel]:
        """The tool and its validated arguments; `started` for a call that runs already.

        Raises:
            ArgumentError: for a tool that does not exist or arguments that do not fit.
        """
        tool = self._tools.get(name) if self._offered or started else None
        if tool is None:
            known = ", ".join(definition.name for definition in self.definitions) or "none"
            raise ArgumentError(f"There is no tool {name[:100]!r}. The tools are: {known}.")
        try:
            return tool, tool.arguments.model_validate_json(arguments or "{}")
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}"
                for item in error.errors(include_input=False, include_url=False)
            )
            raise ArgumentError(
                f"The arguments of {name} do not fit its schema: {problems}. Call it again, corrected."
            ) from error
