"""What roles may do, and what a key may do for whom it acts.

Invariant: a caller's scopes are those of its key that its role has, and that the role of whoever made the
key has.  So a key loses what its principal or its maker loses, at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from herma.common.errors import InvalidArgument, PermissionDenied


class Role(StrEnum):
    """A principal's place in its tenant, from the highest."""

    OWNER = "owner"
    ADMIN = "admin"
    OPERATOR = "operator"
    MEMBER = "member"
    VIEWER = "viewer"

    @property
    def rank(self) -> int:
        """0 for the highest."""
        return list(Role).index(self)


class ProfileRight(StrEnum):
    """What a grant gives on one profile."""

    USE = "use"
    EDIT = "edit"
    APPROVE = "approve"


_VIEWER: Final = ("read", "keys")
# What a member does with `profiles` and `approve` is bounded by grants.
_MEMBER: Final = (*_VIEWER, "agent", "profiles", "approve")
_OPERATOR: Final = (*_MEMBER, "routes", "usage")
_ADMIN: Final = (*_OPERATOR, "principals", "audit")
_OWNER: Final = (*_ADMIN, "tenant")

SCOPES_OF: Final[Mapping[Role, frozenset[str]]] = MappingProxyType(
    {
        Role.OWNER: frozenset(_OWNER),
        Role.ADMIN: frozenset(_ADMIN),
        Role.OPERATOR: frozenset(_OPERATOR),
        Role.MEMBER: frozenset(_MEMBER),
        Role.VIEWER: frozenset(_VIEWER),
    }
)
# Of the installation, not of a tenant: no role has it, only the operator's own key.
PLATFORM: Final = "platform"
TENANT_SCOPES: Final = tuple(sorted(_OWNER))
SCOPES: Final = (*TENANT_SCOPES, PLATFORM)


def effective_scopes(of_key: Iterable[str], *roles: Role) -> tuple[str, ...]:
    """What a key may, for a principal and a maker with these roles."""
    held = set(of_key)
    allowed = frozenset.intersection(*(SCOPES_OF[role] for role in roles))
    kept = held & allowed
    if PLATFORM in held and all(role is Role.OWNER for role in roles):
        kept.add(PLATFORM)
    return tuple(sorted(kept))


def granted_scopes(wanted: Sequence[str], held: Sequence[str], role: Role) -> list[str]:
    """The scopes of a new key for a principal of `role`: what was asked, never more than its maker holds.

    Raises:
        InvalidArgument: for a scope that does not exist.
        PermissionDenied: for one that the maker or the principal does not hold.
    """
    if not wanted:
        return sorted(set(held) & SCOPES_OF[role])
    for scope in wanted:
        if scope not in SCOPES:
            raise InvalidArgument(f"no scope {scope!r}", fields={"scopes": "one of " + ", ".join(SCOPES)})
        if scope not in held:
            raise PermissionDenied(f"a key cannot grant {scope!r}, which its maker does not hold")
        if scope not in SCOPES_OF[role] and scope != PLATFORM:
            raise PermissionDenied(f"a key of a {role} cannot hold {scope!r}")
    return sorted(set(wanted))


def parse_role(text: str) -> Role:
    """A role by its name.

    Raises:
        InvalidArgument: naming `role`.
    """
    try:
        return Role(text)
    except ValueError as error:
        raise InvalidArgument(
            f"no role {text[:40]!r}", fields={"role": "one of " + ", ".join(Role)}
        ) from error


def parse_right(text: str) -> ProfileRight:
    """A right by its name.

    Raises:
        InvalidArgument: naming `right`.
    """
    try:
        return ProfileRight(text)
    except ValueError as error:
        raise InvalidArgument(
            f"no right {text[:40]!r}", fields={"right": "one of " + ", ".join(ProfileRight)}
        ) from error


def check_reach(actor: Role, *roles: Role) -> None:
    """Whether an actor may manage principals of these roles: an owner all, an admin all but owners.

    Raises:
        PermissionDenied: when one of them is above the actor.
    """
    if actor not in (Role.OWNER, Role.ADMIN):
        raise PermissionDenied("only owners and admins manage principals")
    for role in roles:
        if role.rank < actor.rank:
            raise PermissionDenied(f"an {actor} does not manage an {role}")


def mapped_role(groups: Iterable[str], mapping: Mapping[str, str], default: Role | None) -> Role | None:
    """The highest role that a principal's groups map to, else the default; None refuses."""
    found = [Role(mapping[group]) for group in groups if group in mapping]
    return min(found, key=lambda role: role.rank, default=default)
