"""What was used, summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from uuid import UUID

from herma.session_authority.domain.model import Usage


class Grouping(StrEnum):
    """By what is summed up, in the order in which sums are sorted."""

    DAY = "day"
    SESSION = "session"
    PROFILE = "profile"
    PRINCIPAL = "principal"


@dataclass(frozen=True, slots=True)
class UsageQuestion:
    """What to sum up: turns admitted from `since` up to, not including, `until`; None for no bound."""

    of_tenant: bool
    by: Sequence[Grouping]
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class UsageSum:
    """A sum.  Of what it is not by, the field is None."""

    day: date | None
    session_id: UUID | None
    profile: str | None
    principal_id: UUID | None
    turns: int
    usage: Usage
