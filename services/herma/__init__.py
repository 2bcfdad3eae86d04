"""Herma: a multi-tenant platform that hosts AI agents.

One distribution, five services (`gateway`, `session_authority`, `agent_runner`,
`tool_sandbox`, `memory`), the in-sandbox server (`sandboxd`), the single-machine
supervisor (`local`) and the command line (`cli`).  See `docs/architecture.md`.
"""

__version__ = "0.1.0"
