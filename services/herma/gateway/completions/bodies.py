"""The bodies of OpenAI's Chat Completions, as far as Herma reads and writes them.

Source: OpenAI API reference, "Chat", "Create chat completion", and "Models".  Fields that are not here
are ignored, as OpenAI's clients expect; those whose absence would change an answer's meaning are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    field_validator,
)

from herma.gateway.openai_text import joined, printable, unsupported

_TEXTS = {"text": "text", "refusal": "refusal"}
_PARTS = {"type": "array", "items": {"type": "object"}}
Content = Annotated[
    str,
    BeforeValidator(lambda content: joined(content, _TEXTS)),
    WithJsonSchema({"anyOf": [{"type": "string"}, _PARTS, {"type": "null"}]}),
]


class ChatMessage(BaseModel):
    """A message of the conversation."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["developer", "system", "user", "assistant", "tool", "function"]
    content: Content = ""
    refusal: Content = ""
    tool_calls: Any = None
    function_call: Any = None


class StreamOptions(BaseModel):
    """How to stream."""

    model_config = ConfigDict(extra="ignore")

    include_usage: StrictBool | None = None


class ChatCompletionRequest(BaseModel):
    """A conversation whose last message, the user's, is to be answered."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [{"model": "default", "messages": [{"role": "user", "content": "Hello"}]}]
        },
    )

    model: str = Field(min_length=1, max_length=200)
    messages: list[ChatMessage] = Field(min_length=1)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = Field(None, max_length=150)
    n: StrictInt | None = None
    logprobs: StrictBool | None = None
    top_logprobs: StrictInt | None = None
    tools: Any = None
    functions: Any = None
    response_format: Any = None
    modalities: Any = None

    @field_validator("model", "user")
    @classmethod
    def _printable(cls, value: str | None) -> str | None:
        return printable(value)

    @field_validator("n")
    @classmethod
    def _one(cls, value: int | None) -> int | None:
        if value is not None and value != 1:
            raise unsupported("must be 1: a turn has one answer")
        return value

    @field_validator("logprobs", "top_logprobs")
    @classmethod
    def _none(cls, value: int | None) -> int | None:
        if value:
            raise unsupported("log probabilities are not available")
        return value

    @field_validator("tools", "functions")
    @classmethod
    def _herma_runs_tools(cls, value: object) -> object:
        if value:
            raise unsupported("must be empty: tools run on Herma, as the profile says, not at the client")
        return value

    @field_validator("response_format")
    @classmethod
    def _text_format(cls, value: object) -> object:
        if value is not None and not (isinstance(value, dict) and value.get("type") == "text"):
            raise unsupported("must be of type `text`")
        return value

    @field_validator("modalities")
    @classmethod
    def _text_modality(cls, value: object) -> object:
        if value is not None and value != ["text"]:
            raise unsupported("must be `text` alone")
        return value


class AnswerMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(BaseModel):
    """The only choice."""

    index: Literal[0] = 0
    message: AnswerMessage
    logprobs: None = None
    finish_reason: str


class PromptTokens(BaseModel):
    """Of the prompts' tokens."""

    cached_tokens: int = 0


class CompletionTokens(BaseModel):
    """Of the answers' tokens."""

    reasoning_tokens: int = 0


class CompletionUsage(BaseModel):
    """Tokens of all model calls of the turn."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens
    completion_tokens_details: CompletionTokens


class ChatCompletion(BaseModel):
    """A turn's answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage


class ModelBody(BaseModel):
    """A profile, as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["herma"] = "herma"


class ModelList(BaseModel):
    """Profiles, as models."""

    object: Literal["list"] = "list"
    data: list[ModelBody]


class ErrorDetail(BaseModel):
    """What is wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """A refusal in OpenAI's shape.  Branch on `code`; `message` is for people."""

    error: ErrorDetail
