"""`terminal`: runs a command in the session's sandbox."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from herma.agent_runner.domain.ledger import CallResult
from herma.agent_runner.domain.tool import CommandOutcome, Effect, Workspace
from herma.agent_runner.tools.text import readable

# sandboxd writes no more than this to the file of a long output.
MAX_SPILL = 64 * 1024 * 1024


class TerminalArguments(BaseModel):
    """Arguments of `terminal`."""

    model_config = ConfigDict(extra="forbid")

    command: str = Field(min_length=1, max_length=100_000, description="Command for bash.")
    timeout: float = Field(120, ge=0.1, le=3600, description="Seconds after which the command is killed.")
    workdir: str = Field("", max_length=4096, description="Folder to run in, relative to the workspace.")


class Terminal:
    """Runs a command; its effect is unknown, so it is never started twice."""

    name = "terminal"
    description = (
        "Run a command with bash in the workspace. Answers the exit code and the output; of long "
        "output the head and the tail, and the file that holds all of it."
    )
    arguments: type[BaseModel] = TerminalArguments
    effect = Effect.MUTATE

    async def run(
        self, call_id: str, arguments: Any, workspace: Workspace, instance: str, attach: bool
    ) -> CallResult:
        """See `Tool`."""
        outcome = await workspace.run_command(
            call_id, instance, arguments.command, arguments.workdir, arguments.timeout, attach
        )
        return CallResult(
            render_outcome(outcome, arguments.timeout),
            is_error=outcome.exit_code != 0,
            details={
                "exit_code": outcome.exit_code,
                "signal": outcome.signal,
                "timed_out": outcome.timed_out,
                "total_bytes": outcome.total_bytes,
                "seconds": round(outcome.seconds, 3),
            },
        )


def render_outcome(outcome: CommandOutcome, timeout: float) -> str:
    """What the model reads: the status first, so that it survives every truncation."""
    if outcome.timed_out:
        status = f"[timed out after {timeout:g} s and was killed]"
    elif outcome.signal:
        status = f"[killed by signal {outcome.signal}]"
    else:
        status = f"[exit code {outcome.exit_code}]"
    kept = len(outcome.head) + len(outcome.tail)
    if outcome.total_bytes <= kept:
        return f"{status}\n{readable(outcome.head + outcome.tail)}"
    gap = f"[... {outcome.total_bytes - kept} of {outcome.total_bytes} bytes left out"
    whole = outcome.total_bytes <= MAX_SPILL
    share = "all of it is" if whole else f"the first {MAX_SPILL} bytes are"
    gap += f"; {share} in {outcome.spill_path} ...]" if outcome.spill_path else " ...]"
    return f"{status}\n{readable(outcome.head)}\n{gap}\n{readable(outcome.tail)}"
