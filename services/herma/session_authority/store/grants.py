"""Grants: rights of one principal on one profile.

`authority.has_right` is the only rule for who may do what with a profile; what is made here feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from herma.common.errors import NotFound, PermissionDenied
from herma.common.postgres import Connection, Database
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.principal import Grant
from herma.session_authority.domain.rights import ProfileRight, check_reach
from herma.session_authority.store.audit import record
from herma.session_authority.store.principals import acting_role, read_principal

_GRANT = """
    SELECT g.id, g.principal_id, p.name AS profile, g."right", g.granted_by, g.created_at
    FROM authority.grants g
    JOIN authority.profiles p ON p.tenant_id = g.tenant_id AND p.id = g.profile_id
    WHERE g.tenant_id = $1
"""


class GrantStore:
    """Grants of the caller's tenant, for owners and admins."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def add(self, caller: Caller, principal_id: UUID, profile: str, right: ProfileRight) -> Grant:
        """Gives a right, or answers the grant that gives it already.

        Raises:
            NotFound: when principal or profile are not of the caller's tenant.
            PermissionDenied: for a principal that the caller does not manage.
        """
        tenant = caller.tenant_id
        async with self._database.transaction(tenant) as connection:
            principal = await read_principal(connection, tenant, principal_id)
            check_reach(await acting_role(connection, caller), principal.role)
            profile_id = await connection.fetchval(
                "SELECT id FROM authority.profiles WHERE tenant_id = $1 AND name = $2", tenant, profile
            )
            if profile_id is None:
                raise NotFound(f"no profile {profile!r}", reason="PROFILE_NOT_FOUND")
            made = await connection.fetchval(
                """
                INSERT INTO authority.grants (tenant_id, id, principal_id, profile_id, "right",
                                              granted_by)
                VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING id
                """,
                tenant,
                self._new_id(),
                principal_id,
                profile_id,
                right,
                caller.principal_id,
            )
            if made is not None:
                await record(
                    connection,
                    caller,
                    Action.GRANT_ADDED,
                    made,
                    to=principal_id,
                    profile=profile_id,
                    right=right,
                )
            row = await connection.fetchrow(
                _GRANT + ' AND g.principal_id = $2 AND g.profile_id = $3 AND g."right" = $4',
                tenant,
                principal_id,
                profile_id,
                right,
            )
        return _grant(row)

    async def list(
        self, caller: Caller, principal_id: UUID | None, profile: str, after: UUID | None, limit: int
    ) -> Sequence[Grant]:
        """Grants made after the one named, oldest first; of one principal or profile if named.

        Raises:
            PermissionDenied: when the caller manages none.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            check_reach(await acting_role(connection, caller))
            rows = await connection.fetch(
                _GRANT
                + """
                AND ($2::uuid IS NULL OR g.principal_id = $2) AND ($3 = '' OR p.name = $3)
                AND ($4::uuid IS NULL OR g.id > $4) ORDER BY g.id LIMIT $5
                """,
                caller.tenant_id,
                principal_id,
                profile,
                after,
                limit,
            )
        return [_grant(row) for row in rows]

    async def remove(self, caller: Caller, grant_id: UUID) -> None:
        """Takes a grant back; nothing happens when there is none.

        Raises:
            PermissionDenied: for a principal that the caller does not manage.
        """
        tenant = caller.tenant_id
        async with self._database.transaction(tenant) as connection:
            actor = await acting_role(connection, caller)
            check_reach(actor)
            holder = await connection.fetchval(
                "SELECT principal_id FROM authority.grants WHERE tenant_id = $1 AND id = $2",
                tenant,
                grant_id,
            )
            if holder is None:
                return
            check_reach(actor, (await read_principal(connection, tenant, holder)).role)
            await connection.execute(
                "DELETE FROM authority.grants WHERE tenant_id = $1 AND id = $2", tenant, grant_id
            )
            await record(connection, caller, Action.GRANT_REMOVED, grant_id, of=holder)


async def need_right(
    connection: Connection, caller: Caller, profile_id: UUID, right: ProfileRight
) -> None:
    """Insists on a right on a profile.

    Raises:
        PermissionDenied: without it.
    """
    if not await connection.fetchval(
        "SELECT authority.has_right($1, $2, $3, $4)",
        caller.tenant_id,
        caller.principal_id,
        profile_id,
        right,
    ):
        raise PermissionDenied(f"the right to {right} this profile is missing", reason="RIGHT_MISSING")


def _grant(row: Any) -> Grant:
    return Grant(**{**row, "right": ProfileRight(row["right"])})
