"""A scope: whose memory it is.

Invariant: nothing is read or written but in one scope, and a scope comes from a verified turn token
alone.  Tenant, profile and principal together: what one agent was told by one person is neither
another agent's nor another person's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from herma.common.errors import PermissionDenied
from herma.common.turn_token import TurnIdentity


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory."""

    tenant_id: UUID
    profile_id: UUID
    principal_id: UUID

    def keys_of(self, terms: Iterable[str]) -> list[str]:
        """Terms as the index has them: in a name space of this scope.

        A look-up then touches this scope's entries alone, however common the word is elsewhere.
        Whose a row is, is still decided by its columns: a collision costs time and shows nothing.
        """
        whole = self.tenant_id.bytes + self.profile_id.bytes + self.principal_id.bytes
        space = hashlib.sha256(whole).hexdigest()[:16]
        return [f"{space}:{term}" for term in terms]


def scope_of(identity: TurnIdentity) -> Scope:
    """The scope of a turn, whatever its trust."""
    return Scope(identity.tenant_id, identity.profile_id, identity.principal_id)


def is_trusted(identity: TurnIdentity) -> bool:
    """Whether the turn works on trusted input; anything but `trusted` is not."""
    return identity.trust == "trusted"


def trusted_scope_of(identity: TurnIdentity) -> Scope:
    """The scope of a turn that may use it.

    Raises:
        PermissionDenied: for an untrusted turn: its text enters no memory, and it reads none.
    """
    if not is_trusted(identity):
        raise PermissionDenied("a turn on untrusted input has no memory", reason="TURN_UNTRUSTED")
    return scope_of(identity)
