"""What the vendor refuses: requests that a real model server would answer with an error.

Source: OpenAI API reference, "Create chat completion" (request body: `messages`, `tools`,
`stream_options`), the guide "Function calling", and the guide "Error codes".

Invariant: nothing is refused here that the vendor takes, as far as its reference says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_ARGUMENTS = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "moderation",
        "model",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None


def refusal(body: Any, models: Collection[str]) -> Refusal | None:
    """What the vendor would refuse about a request's body; None if nothing."""
    if not isinstance(body, dict):
        return Refusal(400, "We could not parse the JSON body of your request.")
    for name in body:
        if name not in _ARGUMENTS:
            return Refusal(400, f"Unrecognized request argument supplied: {name}", name)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return Refusal(400, "you must provide a model parameter", "model")
    if model not in models:
        message = f"The model `{model}` does not exist or you do not have access to it."
        return Refusal(404, message, "model", "model_not_found")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return Refusal(400, "Invalid 'messages': expected an array that is not empty.", "messages")
    problem = wrong_with(messages)
    if problem:
        return Refusal(400, problem, "messages")
    if body.get("stream_options") is not None and body.get("stream") is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        return Refusal(400, message, "stream_options")
    return _wrong_tools(body)


def wrong_with(messages: list[Any]) -> str:
    """What the vendor would refuse about a conversation; empty if nothing."""
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _ROLES:
            return f"messages.[{index}].role: {role!r} is not one of {', '.join(_ROLES)}"
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                return (
                    f"messages.[{index}]: messages with role 'tool' must be a response to a preceding"
                    " message with 'tool_calls', one for each call"
                )
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            break
        elif role == "assistant":
            problem, open_calls = _wrong_assistant(message)
            if problem:
                return f"messages.[{index}]: {problem}"
        if role != "assistant" and not isinstance(message.get("content"), str | list):
            return f"messages.[{index}].content: expected a string or an array of parts"
    if open_calls:
        return (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following had no response: {', '.join(open_calls)}"
        )
    return ""


def _wrong_assistant(message: dict[str, Any]) -> tuple[str, list[str]]:
    calls = message.get("tool_calls")
    if calls is None:
        return ("" if message.get("content") else "content or 'tool_calls' must be given"), []
    if not isinstance(calls, list) or not calls:
        return "[] is too short - 'tool_calls'", []
    ids: list[str] = []
    for call in calls:
        function = call.get("function") or {}
        if call.get("type") != "function" or not isinstance(call.get("id"), str) or not call["id"]:
            return "every tool call needs an id and the type 'function'", []
        if not _NAME.fullmatch(str(function.get("name") or "")):
            return f"tool_calls.function.name: {function.get('name')!r} does not match the pattern", []
        if not isinstance(function.get("arguments"), str):
            return "tool_calls.function.arguments: expected a string", []
        if call["id"] in ids:
            return f"the tool call id {call['id']!r} is given twice", []
        ids.append(call["id"])
    return "", ids


def _wrong_tools(body: dict[str, Any]) -> Refusal | None:
    tools = body.get("tools")
    if tools is None:
        if body.get("tool_choice") not in (None, "none", "auto"):
            return Refusal(
                400, "'tool_choice' is only allowed when 'tools' are specified.", "tool_choice"
            )
        return None
    if not isinstance(tools, list) or not tools:
        return Refusal(400, "[] is too short - 'tools'", "tools")
    for index, tool in enumerate(tools):
        function = tool.get("function") or {}
        name = function.get("name")
        if tool.get("type") != "function" or not isinstance(name, str) or not _NAME.fullmatch(name):
            message = f"Invalid 'tools[{index}].function.name': {name!r} does not match the pattern."
            return Refusal(400, message, f"tools[{index}].function.name", "invalid_value")
        parameters = function.get("parameters", {"type": "object"})
        if not isinstance(parameters, dict) or parameters.get("type") != "object":
            message = f"Invalid schema for function '{name}': it must have the type 'object'."
            code = "invalid_function_parameters"
            return Refusal(400, message, f"tools[{index}].function.parameters", code)
    return None
