"""The bodies of the HTTP API: its OpenAPI document is made from these."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from herma.common.lines import LABEL_PATTERN, LINE_PATTERN


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # JSON's `\ud800` alone: half of a character.
        raise ValueError("must be Unicode text, without lone surrogates") from error
    return text


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _within_reach(moment: datetime) -> datetime:
    # The years at both ends leave the calendar in some time zone.
    if not 1970 < moment.year < 9999:
        raise ValueError("must be a time of the years 1971 to 9998")
    return moment


# Something besides white space, and nothing that cannot be stored.
_CONTENT: Final = "^[^\x00]*[^\x00\\s][^\x00]*$"
# A caller's own key: entrances use the colon for theirs.
_KEY: Final = LINE_PATTERN.replace("[^", "[^:")
_YEARS: Final = "^(197[1-9]|19[89][0-9]|[2-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])-"

# Patterns come first: what is checked by a function behind them still stands in the document.
Text = Annotated[str, AfterValidator(_storable)]
# `7.0` is an integer in JSON Schema, and `true` is none.
Whole = Annotated[int, Field(strict=True), BeforeValidator(_whole)]
# Text of any length and lines, without what PostgreSQL cannot store.
Words = Annotated[str, Field(pattern="^[^\x00]*$"), AfterValidator(_storable)]
Content = Annotated[str, Field(pattern=_CONTENT), AfterValidator(_storable)]
# One line of text: a name, a title.
Line = Annotated[str, Field(pattern=LINE_PATTERN), AfterValidator(_storable)]
Key = Annotated[str, Field(pattern=_KEY, max_length=200), AfterValidator(_storable)]
Label = Annotated[str, Field(pattern=LABEL_PATTERN, max_length=63)]
Moment = Annotated[
    AwareDatetime, AfterValidator(_within_reach), Field(json_schema_extra={"pattern": _YEARS})
]


class Request(BaseModel):
    """A body that a client sends: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class NewSession(Request):
    """Makes a session."""

    profile: Line = Field("", max_length=200)
    key: Key = ""
    title: Line = Field("", max_length=200)


class NewMessage(Request):
    """Says something."""

    content: Content
    mode: Literal["queue"] = "queue"


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str
    detail: str


class Problem(BaseModel):
    """A refusal (RFC 9457).  Branch on `reason`, which is stable; `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    reason: str
    errors: list[FieldProblem] = Field(default_factory=list)


class SessionBody(BaseModel):
    """A session."""

    id: str
    profile: str
    key: str
    title: str
    state: str
    created_at: datetime | None
    last_seq: int
    # How its first message begins.
    opening: str


class SessionPage(BaseModel):
    """A page of sessions."""

    items: list[SessionBody]
    next_page_token: str


class CallBody(BaseModel):
    """A tool call."""

    id: str
    tool: str
    arguments: str
    state: str
    rule: str
    is_error: bool


class MessageBody(BaseModel):
    """An entry of a transcript."""

    id: str
    turn_id: str
    role: str
    content: str
    calls: list[CallBody]
    call_id: str
    created_at: datetime | None


class MessagePage(BaseModel):
    """A page of a transcript."""

    items: list[MessageBody]
    next_page_token: str


class Admitted(BaseModel):
    """A turn was admitted."""

    turn_id: str
    session_id: str
    seq: int
    cursor: int


class UsageBody(BaseModel):
    """Tokens."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int


class TurnBody(BaseModel):
    """A turn."""

    id: str
    session_id: str
    kind: str
    state: str
    exit_reason: str
    error: str
    attempt: int
    seq: int
    usage: UsageBody
    calls: list[CallBody]
    trace_id: str
    created_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
