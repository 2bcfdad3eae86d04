"""API keys: who presents one, and who may make, see and revoke which.

Invariant: a key is never above its maker nor above whom it acts for, and dies with either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from herma.common.errors import NotFound, Unauthenticated
from herma.common.postgres import Connection, Database, see_tenant
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.keys import ApiKey, key_hash, key_prefix, mint_key
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.principal import Principal
from herma.session_authority.domain.rights import (
    SCOPES_OF,
    Role,
    check_reach,
    effective_scopes,
    granted_scopes,
)
from herma.session_authority.store.audit import record
from herma.session_authority.store.idempotency import take_once
from herma.session_authority.store.principals import acting_role, read_principal

_KEY_COLUMNS = (
    "id, principal_id, name, prefix, scopes, created_at, expires_at, revoked_at, created_by, last_used_at"
)

_PRESENTED = """
    SELECT k.principal_id, k.scopes, k.expires_at, p.role, c.role AS maker_role,
           coalesce(k.last_used_at < now() - interval '1 minute', true) AS is_due
    FROM authority.api_keys k
    JOIN authority.principals p ON p.tenant_id = k.tenant_id AND p.id = k.principal_id
    JOIN authority.principals c ON c.tenant_id = k.tenant_id AND c.id = k.created_by
    WHERE k.tenant_id = $1 AND k.id = $2 AND k.revoked_at IS NULL
      AND (k.expires_at IS NULL OR k.expires_at > now())
      AND p.disabled_at IS NULL AND c.disabled_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Who presented a key, and what it may."""

    caller: Caller
    scopes: Sequence[str]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Maker:
    """Whoever makes a key: `scopes` bound the new one, and `expires_at` its life."""

    role: Role
    scopes: Sequence[str]
    expires_at: datetime | None


class KeyStore:
    """Keys of the caller, and of those that it manages."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def authenticate(self, key: str) -> Authenticated:
        """Who presents this key.

        Raises:
            Unauthenticated: for any key that does not work; the reason is not told.
        """
        refused = Unauthenticated("the API key is not valid", reason="API_KEY_INVALID")
        if key_prefix(key) is None:
            raise refused
        async with self._database.transaction() as connection:
            owner = await connection.fetchrow(
                "SELECT tenant_id, key_id FROM authority.key_owner($1)", key_hash(key)
            )
            if owner is None:
                raise refused
            tenant_id, key_id = owner["tenant_id"], owner["key_id"]
            await see_tenant(connection, tenant_id)
            row = await connection.fetchrow(_PRESENTED, tenant_id, key_id)
            if row is None:
                raise refused
            if row["is_due"]:
                await connection.execute(
                    "UPDATE authority.api_keys SET last_used_at = now() WHERE tenant_id = $1 AND id = $2",
                    tenant_id,
                    key_id,
                )
        return Authenticated(
            Caller(tenant_id, row["principal_id"], key_id),
            effective_scopes(row["scopes"], Role(row["role"]), Role(row["maker_role"])),
            row["expires_at"],
        )

    async def create(
        self,
        caller: Caller,
        name: str,
        scopes: Sequence[str],
        expires_at: datetime | None,
        idempotency_key: str = "",
        principal_id: UUID | None = None,
        manages: bool = False,
    ) -> tuple[ApiKey, str]:
        """Makes a key; its text is answered only here.

        Args:
            scopes: Empty for all that the caller holds and the principal's role has.
            principal_id: For whom; None for the caller.
            manages: The caller's credentials are good for managing other principals.

        Raises:
            AlreadyExists: for a repeat under the same idempotency key, which cannot show it again.
            PermissionDenied: for more scopes than the caller or the principal holds, or for a
                principal that the caller does not manage.
            NotFound: when the caller's key is gone or not the caller's, or there is no such principal.
        """
        key = mint_key()
        tenant = caller.tenant_id
        async with self._database.transaction(tenant) as connection:
            maker = await _maker(connection, caller)
            target = await _managed(connection, caller, maker.role, principal_id, manages)
            granted = granted_scopes(scopes, maker.scopes, target.role)
            expires_at = _earlier(expires_at, maker.expires_at)
            await take_once(
                connection,
                caller,
                "CreateKey",
                idempotency_key,
                *(str(target.id), name, *granted, str(expires_at)),
            )
            made = await insert_key(
                connection, caller, self._new_id(), target.id, key, name, granted, expires_at
            )
            await record(connection, caller, Action.KEY_CREATED, made.id, of=target.id, scopes=granted)
        return made, key

    async def rotate(
        self,
        caller: Caller,
        key_id: UUID,
        overlap: timedelta,
        idempotency_key: str = "",
        manages: bool = False,
    ) -> tuple[ApiKey, str, ApiKey]:
        """Makes a key like another one, which goes on working for `overlap`.

        Returns:
            The new key, its text, and the old key.

        Raises:
            AlreadyExists: as `create`.
            PermissionDenied: as `create`: who rotates makes, and must hold what the key holds.
            NotFound: when there is no such key that works.
        """
        key = mint_key()
        tenant = caller.tenant_id
        async with self._database.transaction(tenant) as connection:
            maker = await _maker(connection, caller)
            old = await read_key(connection, tenant, key_id)
            target = await _managed(connection, caller, maker.role, old.principal_id, manages)
            granted = granted_scopes(old.scopes, maker.scopes, target.role)
            await take_once(connection, caller, "RotateKey", idempotency_key, str(key_id), str(overlap))
            row = await connection.fetchrow(
                f"""
                UPDATE authority.api_keys SET expires_at = least(expires_at, now() + $3)
                WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL
                  AND (expires_at IS NULL OR expires_at > now()) RETURNING {_KEY_COLUMNS}
                """,  # noqa: S608  # a constant
                tenant,
                key_id,
                overlap,
            )
            if row is None:
                raise NotFound("no such key", reason="KEY_NOT_FOUND")
            expires_at = _earlier(old.expires_at, maker.expires_at)
            made = await insert_key(
                connection, caller, self._new_id(), target.id, key, old.name, granted, expires_at
            )
            await record(
                connection,
                caller,
                Action.KEY_ROTATED,
                key_id,
                to=made.id,
                overlap_seconds=int(overlap.total_seconds()),
            )
        return made, key, ApiKey(**row)

    async def list(
        self,
        caller: Caller,
        principal_id: UUID | None = None,
        after: UUID | None = None,
        limit: int = 200,
        manages: bool = False,
    ) -> Sequence[ApiKey]:
        """Keys made after the one named, oldest first.

        Raises:
            PermissionDenied: for a principal that the caller does not manage.
            NotFound: when there is no such principal.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            role = await acting_role(connection, caller)
            target = await _managed(connection, caller, role, principal_id, manages)
            rows = await connection.fetch(
                f"""
                SELECT {_KEY_COLUMNS} FROM authority.api_keys
                WHERE tenant_id = $1 AND principal_id = $2 AND ($3::uuid IS NULL OR id > $3)
                ORDER BY id LIMIT $4
                """,  # noqa: S608  # a constant
                caller.tenant_id,
                target.id,
                after,
                limit,
            )
        return [ApiKey(**row) for row in rows]

    async def revoke(self, caller: Caller, key_id: UUID, manages: bool = False) -> ApiKey:
        """Revokes a key of the caller, or of a principal that it manages.

        Raises:
            NotFound: when it is not the caller's to revoke.
        """
        tenant = caller.tenant_id
        async with self._database.transaction(tenant) as connection:
            role = await acting_role(connection, caller)
            key = await read_key(connection, tenant, key_id)
            await _managed(connection, caller, role, key.principal_id, manages)
            if key.revoked_at is not None:
                return key
            row = await connection.fetchrow(
                f"""
                UPDATE authority.api_keys SET revoked_at = coalesce(revoked_at, now())
                WHERE tenant_id = $1 AND id = $2 RETURNING {_KEY_COLUMNS}
                """,  # noqa: S608  # a constant
                tenant,
                key_id,
            )
            await record(connection, caller, Action.KEY_REVOKED, key_id, of=key.principal_id)
        assert row is not None
        return ApiKey(**row)


async def _maker(connection: Connection, caller: Caller) -> _Maker:
    role = await acting_role(connection, caller)
    if caller.key_id is None:
        return _Maker(role, tuple(sorted(SCOPES_OF[role])), None)
    row: Any = await connection.fetchrow(_PRESENTED, caller.tenant_id, caller.key_id)
    if row is None or row["principal_id"] != caller.principal_id:
        raise NotFound("no such key", reason="KEY_NOT_FOUND")
    return _Maker(role, effective_scopes(row["scopes"], role, Role(row["maker_role"])), row["expires_at"])


async def _managed(
    connection: Connection, caller: Caller, role: Role, principal_id: UUID | None, manages: bool
) -> Principal:
    """Whose keys are meant: the caller's own, or those of somebody that it manages."""
    own = principal_id is None or principal_id == caller.principal_id
    if not own and not (manages and role in (Role.OWNER, Role.ADMIN)):
        # What is not one's own does not exist.
        raise NotFound("no such key", reason="KEY_NOT_FOUND")
    target = await read_principal(connection, caller.tenant_id, principal_id or caller.principal_id)
    if not own:
        check_reach(role, target.role)
    return target


async def read_key(connection: Connection, tenant_id: UUID, key_id: UUID) -> ApiKey:
    """A key of the tenant that is set.

    Raises:
        NotFound: when there is none.
    """
    row = await connection.fetchrow(
        f"SELECT {_KEY_COLUMNS} FROM authority.api_keys"  # noqa: S608  # a constant
        " WHERE tenant_id = $1 AND id = $2",
        tenant_id,
        key_id,
    )
    if row is None:
        raise NotFound("no such key", reason="KEY_NOT_FOUND")
    return ApiKey(**row)


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


async def insert_key(
    connection: Connection,
    maker: Caller,
    key_id: UUID,
    principal_id: UUID,
    key: str,
    name: str,
    scopes: Sequence[str],
    expires_at: datetime | None = None,
) -> ApiKey:
    """Stores a key that `maker` made for a principal of its tenant."""
    row = await connection.fetchrow(
        f"""
        INSERT INTO authority.api_keys (tenant_id, id, principal_id, name, prefix, hash, scopes,
                                        expires_at, created_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING {_KEY_COLUMNS}
        """,  # noqa: S608  # a constant
        maker.tenant_id,
        key_id,
        principal_id,
        name,
        key_prefix(key),
        key_hash(key),
        list(scopes),
        expires_at,
        maker.principal_id,
    )
    assert row is not None
    return ApiKey(**row)
