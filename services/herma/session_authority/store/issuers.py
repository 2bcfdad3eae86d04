"""Issuers that tenants accept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from herma.common.errors import AlreadyExists, NotFound
from herma.common.postgres import Connection, Database, see_tenant
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.issuer import Issuer, IssuerTerms
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.rights import Role, check_reach
from herma.session_authority.store.audit import record
from herma.session_authority.store.principals import acting_role

_COLUMNS = "id, issuer, audience, algorithms, role_claim, roles, default_role, created_at"


class IssuerStore:
    """Issuers of the caller's tenant, for owners and admins."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def register(self, caller: Caller, terms: IssuerTerms) -> Issuer:
        """Accepts an issuer.

        Raises:
            AlreadyExists: when issuer and audience belong to a tenant already, whichever.
            PermissionDenied: when it would give a role that the caller does not manage.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            check_reach(await acting_role(connection, caller), *terms.given_roles)
            try:
                row = await connection.fetchrow(
                    f"""
                    INSERT INTO authority.issuers (tenant_id, id, issuer, audience, algorithms,
                        role_claim, roles, default_role, created_by)
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING {_COLUMNS}
                    """,  # noqa: S608  # a constant
                    caller.tenant_id,
                    self._new_id(),
                    terms.issuer,
                    terms.audience,
                    list(terms.algorithms),
                    terms.role_claim,
                    json.dumps(dict(terms.roles)),
                    terms.default_role,
                    caller.principal_id,
                )
            except asyncpg.UniqueViolationError as error:
                raise AlreadyExists("this issuer and audience are taken") from error
            made = _issuer(row)
            await record(
                connection,
                caller,
                Action.ISSUER_REGISTERED,
                made.id,
                issuer=terms.issuer,
                audience=terms.audience,
                roles=terms.given_roles,
            )
        return made

    async def list(self, caller: Caller, after: UUID | None, limit: int) -> Sequence[Issuer]:
        """Issuers registered after the one named, oldest first.

        Raises:
            PermissionDenied: when the caller manages none.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            check_reach(await acting_role(connection, caller))
            rows = await connection.fetch(
                f"""
                SELECT {_COLUMNS} FROM authority.issuers
                WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3
                """,  # noqa: S608  # a constant
                caller.tenant_id,
                after,
                limit,
            )
        return [_issuer(row) for row in rows]

    async def remove(self, caller: Caller, issuer_id: UUID) -> None:
        """Accepts none of its tokens any more; nothing happens when there is none.

        Raises:
            PermissionDenied: when the caller manages none.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            check_reach(await acting_role(connection, caller))
            removed = await connection.fetchval(
                "DELETE FROM authority.issuers WHERE tenant_id = $1 AND id = $2 RETURNING issuer",
                caller.tenant_id,
                issuer_id,
            )
            if removed is not None:
                await record(connection, caller, Action.ISSUER_REMOVED, issuer_id, issuer=removed)

    async def find(self, issuer: str, audiences: Sequence[str]) -> tuple[UUID, Issuer]:
        """Tenant and issuer for what a token claims.

        Raises:
            NotFound: when nobody accepts it, or when several do: the token does not say whose it is.
        """
        async with self._database.transaction() as connection:
            found = await connection.fetch(
                "SELECT tenant_id, issuer_id FROM authority.issuer_owner($1, $2)", issuer, list(audiences)
            )
            if len(found) != 1:
                raise NotFound("nobody accepts this issuer", reason="ISSUER_NOT_FOUND")
            tenant_id: UUID = found[0]["tenant_id"]
            await see_tenant(connection, tenant_id)
            return tenant_id, await read_issuer(connection, tenant_id, found[0]["issuer_id"])


async def read_issuer(connection: Connection, tenant_id: UUID, issuer_id: UUID) -> Issuer:
    """An issuer of the tenant that is set.

    Raises:
        NotFound: when there is none.
    """
    row = await connection.fetchrow(
        f"SELECT {_COLUMNS} FROM authority.issuers"  # noqa: S608  # a constant
        " WHERE tenant_id = $1 AND id = $2",
        tenant_id,
        issuer_id,
    )
    if row is None:
        raise NotFound("nobody accepts this issuer", reason="ISSUER_NOT_FOUND")
    return _issuer(row)


def _issuer(row: Any) -> Issuer:
    return Issuer(
        row["id"],
        IssuerTerms(
            row["issuer"],
            row["audience"],
            tuple(row["algorithms"]),
            row["role_claim"],
            {group: Role(role) for group, role in json.loads(row["roles"]).items()},
            Role(row["default_role"]) if row["default_role"] else None,
        ),
        row["created_at"],
    )
