"""What OpenAI's Responses API is asked, as far as Herma reads it.

Source: OpenAI API reference, "Responses", "Create a model response".  Fields that are not here are
ignored, as OpenAI's clients expect; those whose absence would change an answer's meaning are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from herma.gateway.openai_text import joined, printable, storable, unsupported

_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_PARTS = {"type": "array", "items": {"type": "object"}}
Content = Annotated[
    str,
    BeforeValidator(lambda content: joined(content, _TEXTS)),
    WithJsonSchema({"anyOf": [{"type": "string"}, _PARTS]}),
]
Text = Annotated[str, AfterValidator(storable)]


class InputItem(BaseModel):
    """A message.  Items of the type `reasoning` are left out: they say nothing to another model."""

    model_config = ConfigDict(extra="ignore")

    type: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: Content = ""

    @model_validator(mode="before")
    @classmethod
    def _only_messages(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        kind = value.get("type")
        if kind == "reasoning":
            return {"type": kind}
        if kind not in (None, "message"):
            raise unsupported(
                "is {kind}; items can only be messages: tools run on Herma, so neither their calls nor "
                "their results, nor references to items, can be taken over",
                kind=repr(kind)[:40],
            )
        return value


def _listed(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


Input = Annotated[
    list[InputItem],
    BeforeValidator(_listed),
    Field(min_length=1, max_length=5_000),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"$ref": "#/components/schemas/InputItem"}},
            ]
        }
    ),
]


class ConversationName(BaseModel):
    """A session of yours."""

    model_config = ConfigDict(extra="ignore")

    id: str


def _named(value: object) -> object:
    return {"id": value} if isinstance(value, str) else value


class ResponseRequest(BaseModel):
    """What is to be answered, and what it goes on from."""

    model_config = ConfigDict(
        extra="ignore", json_schema_extra={"examples": [{"model": "default", "input": "Hello"}]}
    )

    model: str = Field(min_length=1, max_length=200)
    input: Input
    instructions: Text | None = None
    previous_response_id: str | None = None
    conversation: Annotated[
        ConversationName | None,
        BeforeValidator(_named),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "null"}]}),
    ] = None
    stream: StrictBool | None = None
    background: StrictBool | None = None
    store: StrictBool | None = None
    metadata: dict[str, Text] | None = Field(None, max_length=16)
    user: str | None = Field(None, max_length=150)
    tools: Any = None
    text: Any = None
    prompt: Any = None
    top_logprobs: StrictInt | None = None

    @field_validator("model", "user")
    @classmethod
    def _printable(cls, value: str | None) -> str | None:
        return printable(value)

    @field_validator("metadata")
    @classmethod
    def _small(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        for name, text in (value or {}).items():
            storable(name)
            if len(name) > 64 or len(text) > 512:
                raise unsupported("names have at most 64 characters, values 512")
        return value

    @field_validator("store")
    @classmethod
    def _stored(cls, value: bool | None) -> bool | None:
        if value is False:
            raise unsupported(
                "must be true: a turn is kept with its session. Delete the response when it is done with"
            )
        return value

    @field_validator("tools")
    @classmethod
    def _herma_runs_tools(cls, value: object) -> object:
        if value:
            raise unsupported("must be empty: tools run on Herma, as the profile says, not at the client")
        return value

    @field_validator("text")
    @classmethod
    def _plain_text(cls, value: object) -> object:
        form = value.get("format") if isinstance(value, dict) else value
        if form is not None and not (isinstance(form, dict) and form.get("type") == "text"):
            raise unsupported("its format must be of type `text`")
        return value

    @field_validator("prompt")
    @classmethod
    def _no_prompt(cls, value: object) -> object:
        if value is not None:
            raise unsupported("there are no stored prompts; a profile has a persona")
        return value

    @field_validator("top_logprobs")
    @classmethod
    def _none(cls, value: int | None) -> int | None:
        if value:
            raise unsupported("log probabilities are not available")
        return value
