"""Callers that come with a token, and what any caller is.

Invariant: a token's principal is (tenant, issuer, subject), whatever else it says; its groups decide its
role at every entry, so the identity provider takes away what it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from herma.common.errors import NotFound, Unauthenticated
from herma.common.postgres import Connection, Database
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.issuer import Issuer
from herma.session_authority.domain.keys import ApiKey
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.principal import Principal
from herma.session_authority.domain.rights import SCOPES_OF, Role, mapped_role
from herma.session_authority.store.audit import record
from herma.session_authority.store.issuers import read_issuer
from herma.session_authority.store.keys import read_key
from herma.session_authority.store.principals import find_principal, read_principal, update_user
from herma.session_authority.store.tenants import Tenant, read_tenant


@dataclass(frozen=True, slots=True)
class Claims:
    """What a verified token says of its bearer."""

    subject: str
    name: str
    groups: Sequence[str]


@dataclass(frozen=True, slots=True)
class Self:
    """Who a caller is; `key` is None for a token."""

    tenant: Tenant
    principal: Principal
    key: ApiKey | None


class CallerStore:
    """Who calls."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def enter(
        self, tenant_id: UUID, issuer_id: UUID, claims: Claims
    ) -> tuple[Caller, Sequence[str]]:
        """The caller with a token, and its scopes; the principal is made at its first entry.

        Raises:
            Unauthenticated: when the issuer is not accepted (any more), gives the bearer no role, or the
                principal is disabled.
        """
        async with self._database.transaction(tenant_id) as connection:
            try:
                issuer = await read_issuer(connection, tenant_id, issuer_id)
            except NotFound as error:
                raise _refused() from error
            terms = issuer.terms
            given = mapped_role(claims.groups, terms.roles, terms.default_role)
            if given is None:
                raise _refused()
            known = await _find(connection, tenant_id, issuer, claims.subject)
            if known is None:
                known = await self._make(connection, tenant_id, issuer, claims, given)
            if known.disabled_at is not None:
                raise _refused()
            # Without a mapping the provider says nothing of roles: they are managed here.
            role = given if terms.roles else known.role
            if (role, claims.name) != (known.role, known.name):
                was = known.role
                known = await update_user(connection, tenant_id, known, claims.name, role)
                if known.role is not was:
                    caller = Caller(tenant_id, known.id)
                    await record(
                        connection,
                        caller,
                        Action.PRINCIPAL_CHANGED,
                        known.id,
                        role=known.role,
                        was=was,
                        by_token=True,
                    )
        return Caller(tenant_id, known.id), tuple(sorted(SCOPES_OF[known.role]))

    async def who_am_i(self, caller: Caller) -> Self:
        """The caller itself.

        Raises:
            NotFound: when there is no such caller, or the key is not its own.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            principal = await read_principal(connection, caller.tenant_id, caller.principal_id)
            tenant = await read_tenant(connection, caller.tenant_id)
            key = None
            if caller.key_id is not None:
                key = await read_key(connection, caller.tenant_id, caller.key_id)
                if key.principal_id != caller.principal_id:
                    raise NotFound("no such key", reason="KEY_NOT_FOUND")
        return Self(tenant, principal, key)

    async def _make(
        self, connection: Connection, tenant_id: UUID, issuer: Issuer, claims: Claims, role: Role
    ) -> Principal:
        await connection.execute(
            """
            INSERT INTO authority.principals (tenant_id, id, issuer, subject, name, kind, role)
            VALUES ($1, $2, $3, $4, $5, 'user', $6) ON CONFLICT (tenant_id, issuer, subject) DO NOTHING
            """,
            tenant_id,
            self._new_id(),
            issuer.terms.issuer,
            claims.subject,
            claims.name,
            role,
        )
        made = await _find(connection, tenant_id, issuer, claims.subject)
        assert made is not None
        await record(
            connection,
            Caller(tenant_id, made.id),
            Action.PRINCIPAL_ENTERED,
            made.id,
            issuer=issuer.terms.issuer,
            role=role,
        )
        return made


async def _find(
    connection: Connection, tenant_id: UUID, issuer: Issuer, subject: str
) -> Principal | None:
    return await find_principal(connection, tenant_id, issuer.terms.issuer, subject)


def _refused() -> Unauthenticated:
    return Unauthenticated("the token is not accepted", reason="TOKEN_INVALID")
