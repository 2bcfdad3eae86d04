"""What OpenAI's Responses API answers, as Herma does.

Source: OpenAI API reference, "The response object" and "The input item list object".
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class OutputText(BaseModel):
    """The text of a message."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[Any] = []
    logprobs: list[Any] = []


class OutputMessage(BaseModel):
    """What the agent said between two rounds of tools, or at the end."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed"]
    content: list[OutputText]


class InputDetails(BaseModel):
    """Of the tokens that models read."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputDetails(BaseModel):
    """Of the tokens that models wrote."""

    reasoning_tokens: int = 0


class ResponseUsage(BaseModel):
    """Tokens of all model calls of the turn."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(BaseModel):
    """Why there is no answer.  Clients know few codes; the turn's exit reason is in `message`."""

    code: Literal["server_error", "invalid_prompt"]
    message: str


class IncompleteDetails(BaseModel):
    """Why the answer is not all of it."""

    reason: Literal["max_output_tokens", "content_filter"]


class ConversationBody(BaseModel):
    """The session that the request named."""

    id: str


class TextFormat(BaseModel):
    """Plain text."""

    type: Literal["text"] = "text"


class TextOptions(BaseModel):
    """How the answer is written."""

    format: TextFormat = TextFormat()


class ResponseBody(BaseModel):
    """A turn, as a response."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status
    background: bool
    model: str
    output: list[OutputMessage]
    usage: ResponseUsage | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    previous_response_id: str | None
    conversation: ConversationBody | None
    metadata: dict[str, str]
    user: str | None
    instructions: None = None
    max_output_tokens: None = None
    parallel_tool_calls: Literal[True] = True
    temperature: None = None
    text: TextOptions = TextOptions()
    tool_choice: Literal["auto"] = "auto"
    tools: list[Any] = []
    top_p: None = None


class InputText(BaseModel):
    """The text of an input."""

    type: Literal["input_text"] = "input_text"
    text: str


class InputMessage(BaseModel):
    """A message of a request."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["user", "assistant"]
    status: Literal["completed"] = "completed"
    content: list[InputText | OutputText]


class InputPage(BaseModel):
    """A page of what a request said."""

    object: Literal["list"] = "list"
    data: list[InputMessage]
    first_id: str
    last_id: str
    has_more: bool


class DeletedResponse(BaseModel):
    """It is gone."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
