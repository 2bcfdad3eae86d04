"""How a turn's end is told as a response's: a status, or an error.

The table is in docs/openai.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from herma.gateway.completions.outcome import Answered, Failed, outcome_of
from herma.gateway.responses.objects import (
    IncompleteDetails,
    InputDetails,
    OutputDetails,
    ResponseError,
    ResponseUsage,
    Status,
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a response ended.

    Attributes:
        failed: Why there is no answer, as who waits for one is told; None if there is.
        at: In Unix seconds.
    """

    status: Status
    usage: ResponseUsage
    failed: Failed | None
    incomplete: IncompleteDetails | None
    at: int

    @property
    def error(self) -> ResponseError | None:
        """As the response says it."""
        if self.failed is None or self.status == "cancelled":
            return None
        code: Any = "invalid_prompt" if self.failed.status == 400 else "server_error"
        return ResponseError(code=code, message=f"{self.failed.message} ({self.failed.code})")


def ending_of(ended: Mapping[str, Any], model_reason: str, at: int) -> Ending:
    """What a turn's end means.

    Args:
        ended: The data of its `turn.ended`.
        model_reason: The finish reason of its newest message.
    """
    usage = _usage(ended.get("usage") or {})
    outcome = outcome_of(ended, model_reason)
    if isinstance(outcome, Answered):
        if outcome.finish_reason == "stop":
            return Ending("completed", usage, None, None, at)
        filtered = outcome.finish_reason == "content_filter"
        reason: Any = "content_filter" if filtered else "max_output_tokens"
        return Ending("incomplete", usage, None, IncompleteDetails(reason=reason), at)
    stopped = ended["state"] in ("interrupted", "cancelled")
    return Ending("cancelled" if stopped else "failed", usage, outcome, None, at)


def _usage(usage: Mapping[str, Any]) -> ResponseUsage:
    asked, answered = int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0))
    return ResponseUsage(
        input_tokens=asked,
        input_tokens_details=InputDetails(
            cached_tokens=int(usage.get("cache_read_tokens", 0)),
            cache_write_tokens=int(usage.get("cache_write_tokens", 0)),
        ),
        output_tokens=answered,
        output_tokens_details=OutputDetails(reasoning_tokens=int(usage.get("reasoning_tokens", 0))),
        total_tokens=asked + answered,
    )
