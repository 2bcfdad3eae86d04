"""How a turn's end is told to OpenAI's clients: a finish reason, or an error.

The table is in docs/openai.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from herma.gateway.completions.bodies import CompletionTokens, CompletionUsage, PromptTokens

_BUDGETS = frozenset({"iteration_budget", "cost_budget", "run_budget"})
# Of the model's own reasons, those that say that its answer is not all of it.
_CURTAILED = frozenset({"length", "content_filter"})
_STATUS = {
    "provider_exhausted": 502,
    "sandbox_unavailable": 503,
    "context_overflow": 400,
}
_CODES = {"context_overflow": "context_length_exceeded"}


@dataclass(frozen=True, slots=True)
class Answered:
    """The turn has an answer."""

    finish_reason: str
    usage: CompletionUsage


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn has none.  `kind` and `code` are the error's `type` and `code`."""

    status: int
    kind: str
    code: str
    message: str


Outcome: TypeAlias = Answered | Failed


def outcome_of(ended: Mapping[str, Any], model_reason: str) -> Outcome:
    """What a turn's end means.

    Args:
        ended: The data of its `turn.ended`.
        model_reason: The finish reason of its newest message.
    """
    state, reason = str(ended["state"]), str(ended["exit_reason"])
    usage = _usage(ended.get("usage") or {})
    if state == "completed":
        return Answered(model_reason if model_reason in _CURTAILED else "stop", usage)
    if state == "failed" and reason in _BUDGETS:
        return Answered("length", usage)
    message = str(ended.get("error") or f"The turn ended as {state} ({reason}).")
    if state != "failed":
        status = 504 if state == "expired" else 409
        return Failed(status, "turn_error", reason or state, message)
    status = _STATUS.get(reason, 500)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return Failed(status, kind, _CODES.get(reason, reason), message)


def _usage(usage: Mapping[str, Any]) -> CompletionUsage:
    prompt, answer = int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0))
    return CompletionUsage(
        prompt_tokens=prompt,
        completion_tokens=answer,
        total_tokens=prompt + answer,
        prompt_tokens_details=PromptTokens(cached_tokens=int(usage.get("cache_read_tokens", 0))),
        completion_tokens_details=CompletionTokens(
            reasoning_tokens=int(usage.get("reasoning_tokens", 0))
        ),
    )
