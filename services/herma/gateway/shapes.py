"""The one place that decides how a refusal looks: by its path.

Under `/v1` a refusal is a problem document (RFC 9457); on the paths that OpenAI's clients use it is
OpenAI's error object (OpenAI API reference, "Error codes").  Both are made from the same problem, so no
refusal is told on one and silent on the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from herma.common.problem import PROBLEM_MEDIA_TYPE

_OPENAI_PATHS = re.compile(r"/v1/(chat|models|responses)(/|$)")

# Reasons whose code OpenAI's clients know; the others keep their reason, in lower case.
_CODES = {
    "API_KEY_MISSING": "invalid_api_key",
    "API_KEY_INVALID": "invalid_api_key",
    "PROFILE_NOT_FOUND": "model_not_found",
    "RESOURCE_EXHAUSTED": "rate_limit_exceeded",
}
_PARAMS = {
    "PROFILE_NOT_FOUND": "model",
    "SESSION_NOT_FOUND": "X-Herma-Session",
    "CONVERSATION_NOT_FOUND": "conversation",
    "RESPONSE_NOT_FOUND": "response_id",
    "PREVIOUS_RESPONSE_NOT_FOUND": "previous_response_id",
    "TURN_UNFINISHED": "previous_response_id",
}
# The client did not go away, so it was a part of the platform that did.
_AWAY = (499, 504)


@dataclass(frozen=True, slots=True)
class Shaped:
    """A refusal as it goes over the wire."""

    status: int
    media_type: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]


def speaks_openai(path: str) -> bool:
    """Whether OpenAI's clients use this path."""
    return _OPENAI_PATHS.match(path) is not None


def shaped(path: str, problem: Mapping[str, Any], headers: Mapping[str, str]) -> Shaped:
    """A refusal of a request to this path.

    Args:
        problem: `status`, `detail`, `reason`, and perhaps `errors`, as `common.problem` makes them.
        headers: What goes with it in any shape.
    """
    if not speaks_openai(path):
        return Shaped(int(problem["status"]), PROBLEM_MEDIA_TYPE, problem, headers)
    return shaped_as_openai(problem, headers)


def shaped_as_openai(problem: Mapping[str, Any], headers: Mapping[str, str]) -> Shaped:
    """A refusal in OpenAI's shape; see `shaped`."""
    status = int(problem["status"])
    more = dict(headers)
    if status in _AWAY:
        status = 503
    if status == 503:
        more.setdefault("Retry-After", "1")
    if status == 409:
        # The client's library would try it again, to no avail.
        more["x-should-retry"] = "false"
    return Shaped(status, "application/json", _openai_body(status, problem), more)


def openai_error(message: str, kind: str, code: str, param: str | None = None) -> dict[str, Any]:
    """OpenAI's error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _openai_body(status: int, problem: Mapping[str, Any]) -> dict[str, Any]:
    reason = str(problem["reason"])
    errors = problem.get("errors") or ()
    message = str(problem["detail"])
    param = _PARAMS.get(reason)
    if errors:
        message += ": " + "; ".join(f"{_place(e['field'])}: {e['detail']}" for e in errors)
        param = _place(errors[0]["field"])
    code = _CODES.get(reason, reason.lower())
    return openai_error(message, _kind(status), code, param)


def _kind(status: int) -> str:
    if status >= 500:
        return "server_error"
    return "rate_limit_error" if status == 429 else "invalid_request_error"


def _place(field: str) -> str:
    """A field as OpenAI names it: `messages.0.content` is `messages[0].content`."""
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", field)
