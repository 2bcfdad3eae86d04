"""Principals of a tenant, and who may change them.

Invariant: a tenant always has an owner that may act, or nobody could repair anything in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from herma.common.errors import AlreadyExists, LastOwner, NotFound, PermissionDenied, PrincipalChanged
from herma.common.postgres import Connection, Database
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.principal import LOCAL_ISSUER, Principal, PrincipalChange
from herma.session_authority.domain.rights import Role, check_reach
from herma.session_authority.store.audit import record

_COLUMNS = "id, issuer, subject, name, kind, role, created_at, disabled_at, version"


class PrincipalStore:
    """Principals of the caller's tenant, for owners and admins."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def create_service(self, caller: Caller, subject: str, name: str, role: Role) -> Principal:
        """Makes a service account.

        Raises:
            AlreadyExists: when there is one of that name.
            PermissionDenied: for a role that the caller does not manage.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            check_reach(await acting_role(connection, caller), role)
            try:
                row = await connection.fetchrow(
                    f"""
                    INSERT INTO authority.principals (tenant_id, id, issuer, subject, name, kind, role)
                    VALUES ($1, $2, $3, $4, $5, 'service', $6) RETURNING {_COLUMNS}
                    """,  # noqa: S608  # a constant
                    caller.tenant_id,
                    self._new_id(),
                    LOCAL_ISSUER,
                    subject,
                    name,
                    role,
                )
            except asyncpg.UniqueViolationError as error:
                raise AlreadyExists(f"there is a principal {subject!r}") from error
            made = _principal(row)
            await record(
                connection, caller, Action.PRINCIPAL_CREATED, made.id, subject=subject, role=role
            )
        return made

    async def list(self, caller: Caller, after: UUID | None, limit: int) -> Sequence[Principal]:
        """Principals made after the one named, oldest first.

        Raises:
            PermissionDenied: when the caller manages none.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            check_reach(await acting_role(connection, caller))
            rows = await connection.fetch(
                f"""
                SELECT {_COLUMNS} FROM authority.principals
                WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3
                """,  # noqa: S608  # a constant
                caller.tenant_id,
                after,
                limit,
            )
        return [_principal(row) for row in rows]

    async def get(self, caller: Caller, principal_id: UUID) -> Principal:
        """One principal.

        Raises:
            NotFound: when it is not of the caller's tenant.
            PermissionDenied: when the caller manages none.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            check_reach(await acting_role(connection, caller))
            return await read_principal(connection, caller.tenant_id, principal_id)

    async def change(self, caller: Caller, principal_id: UUID, change: PrincipalChange) -> Principal:
        """Changes a principal; a change that changes nothing answers it as it is.

        Raises:
            NotFound: when it is not of the caller's tenant.
            PermissionDenied: for a role that the caller does not manage.
            PrincipalChanged: when the expected version is not the newest.
            LastOwner: when no owner that may act would be left.
        """
        tenant = caller.tenant_id
        async with self._database.transaction(tenant) as connection:
            await connection.execute(_LOCK_OWNERS, tenant, principal_id)
            actor = await acting_role(connection, caller)
            found = await read_principal(connection, tenant, principal_id)
            check_reach(actor, found.role, change.role or found.role)
            wanted = _changed(found, change)
            if wanted == (found.name, found.role, found.disabled_at is not None):
                return found
            if change.expected_version not in (0, found.version):
                raise PrincipalChanged(
                    f"the principal is at version {found.version}, not {change.expected_version}",
                    metadata={"version": str(found.version)},
                )
            row = await connection.fetchrow(_CHANGE, tenant, principal_id, *wanted)
            if not await connection.fetchval(_HAS_OWNER, tenant):
                raise LastOwner("the tenant's last owner stays")
            changed = _principal(row)
            if changed.disabled_at is not None:
                await connection.execute(_INTERRUPT, tenant, principal_id)
            await record(
                connection,
                caller,
                Action.PRINCIPAL_CHANGED,
                principal_id,
                role=changed.role,
                was=found.role,
                disabled=changed.disabled_at is not None,
            )
        return changed


# The rows that the invariant hangs on, and the one that changes, in one order.
_LOCK_OWNERS = """
    SELECT FROM authority.principals
    WHERE tenant_id = $1 AND (role = 'owner' OR id = $2) ORDER BY id FOR NO KEY UPDATE
"""

_CHANGE = f"""
    UPDATE authority.principals
    SET name = $3, role = $4, version = version + 1,
        disabled_at = CASE WHEN $5 THEN coalesce(disabled_at, now()) END
    WHERE tenant_id = $1 AND id = $2 RETURNING {_COLUMNS}
"""  # noqa: S608  # a constant

# What waits is ended when it is to start; what runs is asked to stop.
_INTERRUPT = """
    UPDATE authority.turns t SET interrupt_requested = true
    FROM authority.leases l
    WHERE l.tenant_id = $1 AND t.tenant_id = $1 AND t.id = l.turn_id AND t.principal_id = $2
"""

_HAS_OWNER = """
    SELECT EXISTS (SELECT FROM authority.principals
                   WHERE tenant_id = $1 AND role = 'owner' AND disabled_at IS NULL)
"""


def _changed(found: Principal, change: PrincipalChange) -> tuple[str, Role, bool]:
    disabled = found.disabled_at is not None if change.disabled is None else change.disabled
    name = found.name if change.name is None else change.name
    return name, change.role or found.role, disabled


async def acting_role(connection: Connection, caller: Caller) -> Role:
    """The role of the caller, which must be able to act.

    Raises:
        NotFound: when there is no such principal.
        PermissionDenied: when it is disabled.
    """
    found = await read_principal(connection, caller.tenant_id, caller.principal_id)
    if found.disabled_at is not None:
        raise PermissionDenied("the caller may not act")
    return found.role


async def read_principal(connection: Connection, tenant_id: UUID, principal_id: UUID) -> Principal:
    """A principal of the tenant that is set.

    Raises:
        NotFound: when there is none.
    """
    row = await connection.fetchrow(
        f"SELECT {_COLUMNS} FROM authority.principals"  # noqa: S608  # a constant
        " WHERE tenant_id = $1 AND id = $2",
        tenant_id,
        principal_id,
    )
    if row is None:
        raise NotFound("no such principal", reason="PRINCIPAL_NOT_FOUND")
    return _principal(row)


async def find_principal(
    connection: Connection, tenant_id: UUID, issuer: str, subject: str
) -> Principal | None:
    """A principal of the tenant that is set, by who says so and what it is called there."""
    row = await connection.fetchrow(
        f"SELECT {_COLUMNS} FROM authority.principals"  # noqa: S608  # a constant
        " WHERE tenant_id = $1 AND issuer = $2 AND subject = $3",
        tenant_id,
        issuer,
        subject,
    )
    return _principal(row) if row is not None else None


async def update_user(
    connection: Connection, tenant_id: UUID, found: Principal, name: str, role: Role
) -> Principal:
    """Follows what an identity provider says of a user; the tenant's last owner stays one."""
    await connection.execute(_LOCK_OWNERS, tenant_id, found.id)
    row = await connection.fetchrow(
        _CHANGE, tenant_id, found.id, name, role, found.disabled_at is not None
    )
    if not await connection.fetchval(_HAS_OWNER, tenant_id):
        row = await connection.fetchrow(_CHANGE, tenant_id, found.id, name, Role.OWNER, False)
    return _principal(row)


async def take_principal(
    connection: Connection, tenant_id: UUID, new_id: UUID, subject: str, role: Role
) -> UUID:
    """The id of a principal that was made here, which is made if there is none."""
    await connection.execute(
        """
        INSERT INTO authority.principals (tenant_id, id, issuer, subject, role)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant_id, issuer, subject) DO NOTHING
        """,
        tenant_id,
        new_id,
        LOCAL_ISSUER,
        subject,
        role,
    )
    found: UUID = await connection.fetchval(
        "SELECT id FROM authority.principals WHERE tenant_id = $1 AND issuer = $2 AND subject = $3",
        tenant_id,
        LOCAL_ISSUER,
        subject,
    )
    return found


def _principal(row: Any) -> Principal:
    return Principal(**{**row, "role": Role(row["role"])})
