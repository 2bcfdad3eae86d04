"""What routes share: who calls, what answers, how refusals are documented."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Security

from herma.common.errors import InvalidArgument, NotFound
from herma.common.ids import parse_id
from herma.gateway.auth import DOOR, Visitor
from herma.gateway.authority import Authority
from herma.gateway.bodies import Problem
from herma.gateway.completions.bodies import ErrorBody


async def authority_of(request: Request) -> Authority:
    """The authority.  A coroutine, for FastAPI sends a plain function to another thread and back."""
    found: Authority = request.app.state.authority
    return found


async def idempotency_key_of(
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=255, pattern=r"^[!-~]([ -~]*[!-~])?$")
    ] = None,
) -> str:
    """The header `Idempotency-Key`; empty without one."""
    return idempotency_key or ""


def known_id(text: str, noun: str) -> str:
    """An id from a path.  What is no id never was, so it answers as such.

    Raises:
        NotFound: for text that is no id.
    """
    try:
        return str(parse_id(text, "id"))
    except InvalidArgument as error:
        raise NotFound(f"no such {noun}", reason=f"{noun.upper()}_NOT_FOUND") from error


Anybody = Annotated[Visitor, Security(DOOR)]
Reader = Annotated[Visitor, Security(DOOR, scopes=["read"])]
Agent = Annotated[Visitor, Security(DOOR, scopes=["agent"])]
KeyHolder = Annotated[Visitor, Security(DOOR, scopes=["keys"])]
Editor = Annotated[Visitor, Security(DOOR, scopes=["profiles"])]
PrincipalManager = Annotated[Visitor, Security(DOOR, scopes=["principals"])]
Auditor = Annotated[Visitor, Security(DOOR, scopes=["audit"])]
Operator = Annotated[Visitor, Security(DOOR, scopes=["platform"])]
TheAuthority = Annotated[Authority, Depends(authority_of)]
IdempotencyKey = Annotated[str, Depends(idempotency_key_of)]
PageSize = Annotated[int, Query(ge=1, le=200)]
PageToken = Annotated[str, Query(max_length=500)]


async def expected_version_of(
    if_match: Annotated[str, Header(pattern=r'^("?[1-9][0-9]{0,8}"?)?$')] = "",
) -> int:
    """The version in `If-Match`, as `ETag` gave it; 0 without one."""
    return int(if_match.strip('"') or 0)


ExpectedVersion = Annotated[int, Depends(expected_version_of)]

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "The request is malformed."),
        (401, "The API key is missing or does not work."),
        (403, "The API key lacks a scope."),
        (404, "There is no such thing, or it is not yours."),
        (409, "It conflicts with an earlier request."),
        (413, "The body is larger than 1 MiB."),
        (503, "A part of the platform does not answer."),
    )
}

OPENAI_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {**refusal, "model": ErrorBody} for status, refusal in REFUSALS.items()
}

CHANGED: dict[int | str, dict[str, Any]] = {
    412: {"model": Problem, "description": "It was changed since the version in `If-Match`."}
}
