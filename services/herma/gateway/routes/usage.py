"""What was used."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from herma.gateway.bodies import Moment, UsageBody
from herma.gateway.routes.parts import REFUSALS, PageSize, PageToken, Reader, TheAuthority
from herma.gateway.wire import usage_body

router = APIRouter(prefix="/v1/usage", tags=["usage"], responses=REFUSALS)

GroupingName = Literal["day", "session", "profile", "principal"]


class UsageSumBody(BaseModel):
    """A sum.  Of what it is not by, the field is null; `day` is one of UTC, of a turn's admission."""

    day: str | None
    session_id: str | None
    profile: str | None
    principal_id: str | None
    turns: int
    usage: UsageBody


class UsagePage(BaseModel):
    """Sums, sorted by what they are by."""

    items: list[UsageSumBody]
    next_page_token: str


@router.get("")
async def sum_usage(
    visitor: Reader,
    authority: TheAuthority,
    page_size: PageSize = 50,
    page_token: PageToken = "",
    of: Literal["me", "tenant"] = "me",
    by: Annotated[list[GroupingName], Query(max_length=4)] = ["day"],  # noqa: B006  # FastAPI copies it
    since: Moment | None = None,
    until: Moment | None = None,
) -> UsagePage:
    """Sums up turns and tokens by any of day, session, profile and principal: yours, or your tenant's.

    The tenant's needs the scope `usage`.  What was used in sessions that are deleted since counts on, by
    the hour.
    """
    if of == "tenant":
        visitor.need("usage")
    page = await authority.usage.list(
        visitor.caller, of == "tenant", by, since, until, page_size, page_token
    )
    return UsagePage(
        items=[
            UsageSumBody(
                day=one.day or None,
                session_id=one.session_id or None,
                profile=one.profile or None,
                principal_id=one.principal_id or None,
                turns=one.turns,
                usage=usage_body(one.usage),
            )
            for one in page.sums
        ],
        next_page_token=page.next_page_token,
    )
