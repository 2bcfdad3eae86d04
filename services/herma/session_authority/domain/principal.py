"""Principals: who acts for a tenant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from herma.common.errors import InvalidArgument
from herma.common.lines import is_label
from herma.session_authority.domain.rights import ProfileRight, Role

# Of who was made here rather than by an identity provider.
LOCAL_ISSUER = "herma"

MAX_NAME = 200
MAX_SUBJECT = 255


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts: tenant, issuer and subject.  `kind` is `user` or `service`."""

    id: UUID
    issuer: str
    subject: str
    name: str
    kind: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None
    version: int


@dataclass(frozen=True, slots=True)
class PrincipalChange:
    """What to change; None stays.  `expected_version` 0 for whichever there is."""

    name: str | None = None
    role: Role | None = None
    disabled: bool | None = None
    expected_version: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """A right of a principal on a profile, which is named by name."""

    id: UUID
    principal_id: UUID
    profile: str
    right: ProfileRight
    granted_by: UUID
    created_at: datetime


def check_service_name(subject: str) -> None:
    """Refuses a name that is no DNS label.

    Raises:
        InvalidArgument: naming `subject`.
    """
    if not is_label(subject):
        raise InvalidArgument(
            "the name is not usable",
            fields={"subject": "1 to 63 of a-z, 0-9 and -, not at either end"},
        )
