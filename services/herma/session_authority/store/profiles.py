"""Profiles of a tenant: a name, and versions that never change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from herma.common.errors import NotFound, PermissionDenied, ProfileChanged
from herma.common.postgres import Connection, Database
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.profile import Outcome, ProfileSpec, ProfileVersion
from herma.session_authority.domain.rights import ProfileRight, Role
from herma.session_authority.store.audit import record
from herma.session_authority.store.grants import need_right
from herma.session_authority.store.principals import acting_role

_PROFILE = """
    SELECT p.id, p.name, v.version, v.spec, v.created_at
    FROM authority.profiles p
    JOIN authority.profile_versions v ON v.tenant_id = p.tenant_id AND v.profile_id = p.id
    WHERE p.tenant_id = $1 AND authority.has_right($1, $2, p.id, 'use')
"""


class ProfileStore:
    """Profiles that the caller may use; no other exists."""

    def __init__(self, database: Database, new_id: Callable[[], UUID]) -> None:
        self._database = database
        self._new_id = new_id

    async def list(self, caller: Caller, after: str, limit: int) -> Sequence[ProfileVersion]:
        """The newest version of each profile whose name sorts behind `after`, by name."""
        async with self._database.transaction(caller.tenant_id) as connection:
            rows = await connection.fetch(
                _PROFILE + " AND v.version = p.version AND p.name > $3 ORDER BY p.name LIMIT $4",
                caller.tenant_id,
                caller.principal_id,
                after,
                limit,
            )
        return [ProfileVersion(**row) for row in rows]

    async def get(self, caller: Caller, name: str, version: int = 0) -> ProfileVersion:
        """One profile, at its newest version if none is named.

        Raises:
            NotFound: when there is none.
        """
        async with self._database.transaction(caller.tenant_id) as connection:
            return await _read(connection, caller, name, version)

    async def apply(
        self, caller: Caller, name: str, spec: ProfileSpec, expected_version: int = 0
    ) -> tuple[ProfileVersion, Outcome]:
        """Makes a profile or a new version of it; an equal spec answers the version that there is.

        So a repeat of what took effect is answered like the first, whatever it expected
        (RFC 9110, section 13.1.1).

        Raises:
            ProfileChanged: when `expected_version`, unless 0, is not the newest.
            PermissionDenied: when the caller may not make profiles, or not edit this one.
        """
        tenant = caller.tenant_id
        async with self._database.transaction(tenant) as connection:
            makes = await acting_role(connection, caller) in (Role.OWNER, Role.ADMIN)
            if not expected_version and makes:
                made = await self._take_name(connection, tenant, name, spec)
                if made is not None:
                    await _insert_version(connection, tenant, made, 1, spec)
                    await record(connection, caller, Action.PROFILE_APPLIED, made, name=name, version=1)
                    return await _read(connection, caller, name), Outcome.CREATED
            profile_id = await connection.fetchval(
                "SELECT id FROM authority.profiles WHERE tenant_id = $1 AND name = $2 FOR NO KEY UPDATE",
                tenant,
                name,
            )
            if profile_id is None:
                if not makes:
                    raise PermissionDenied("only owners and admins make profiles")
                raise ProfileChanged(f"there is no profile {name!r}, so no version {expected_version}")
            await need_right(connection, caller, profile_id, ProfileRight.EDIT)
            newest = await _read(connection, caller, name)
            if spec.is_said_by(newest.spec):
                return newest, Outcome.UNCHANGED
            if expected_version not in (0, newest.version):
                raise ProfileChanged(
                    f"profile {name!r} is at version {newest.version}, not {expected_version}",
                    metadata={"version": str(newest.version)},
                )
            await _insert_version(connection, tenant, profile_id, newest.version + 1, spec)
            await connection.execute(
                """
                UPDATE authority.profiles SET version = version + 1, access = $3
                WHERE tenant_id = $1 AND id = $2
                """,
                tenant,
                profile_id,
                spec.access,
            )
            await record(
                connection,
                caller,
                Action.PROFILE_APPLIED,
                profile_id,
                name=name,
                version=newest.version + 1,
            )
            return await _read(connection, caller, name), Outcome.UPDATED

    async def _take_name(
        self, connection: Connection, tenant_id: UUID, name: str, spec: ProfileSpec
    ) -> UUID | None:
        taken: UUID | None = await connection.fetchval(
            """
            INSERT INTO authority.profiles (tenant_id, id, name, version, access)
            VALUES ($1, $2, $3, 1, $4)
            ON CONFLICT (tenant_id, name) DO NOTHING RETURNING id
            """,
            tenant_id,
            self._new_id(),
            name,
            spec.access,
        )
        return taken


async def _insert_version(
    connection: Connection, tenant_id: UUID, profile_id: UUID, version: int, spec: ProfileSpec
) -> None:
    await connection.execute(
        """
        INSERT INTO authority.profile_versions (tenant_id, profile_id, version, spec)
        VALUES ($1, $2, $3, $4)
        """,
        tenant_id,
        profile_id,
        version,
        spec.to_json(),
    )


async def _read(connection: Connection, caller: Caller, name: str, version: int = 0) -> ProfileVersion:
    row = await connection.fetchrow(
        _PROFILE + " AND p.name = $3 AND v.version = CASE $4::int WHEN 0 THEN p.version ELSE $4 END",
        caller.tenant_id,
        caller.principal_id,
        name,
        version,
    )
    if row is None:
        raise NotFound(f"no profile {name!r}", reason="PROFILE_NOT_FOUND")
    return ProfileVersion(**row)
