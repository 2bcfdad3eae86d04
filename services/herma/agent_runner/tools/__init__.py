"""The tools that agents use."""

from herma.agent_runner.domain.tool import Tool
from herma.agent_runner.tools.files import ReadFile, WriteFile
from herma.agent_runner.tools.memory import Memory
from herma.agent_runner.tools.terminal import Terminal

CORE_TOOLS: tuple[Tool, ...] = (Terminal(), ReadFile(), WriteFile(), Memory())

__all__ = ["CORE_TOOLS", "Memory", "ReadFile", "Terminal", "WriteFile"]
