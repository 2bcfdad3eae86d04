"""The names under which sessions find their profiles."""

from __future__ import annotations

from collections.abc import Sequence

from herma.common.postgres import Database
from herma.session_authority.domain.model import Caller, ProfileName

_MOST = 1_000


class ProfileNameStore:
    """Names of a tenant's profiles."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, caller: Caller, name: str = "") -> Sequence[ProfileName]:
        """The profiles of the caller's tenant by name, at most 1,000; with `name` only that one."""
        async with self._database.transaction(caller.tenant_id) as connection:
            rows = await connection.fetch(
                """
                SELECT p.name, min(v.created_at) AS created_at
                FROM authority.profiles p
                JOIN authority.profile_versions v ON v.tenant_id = p.tenant_id AND v.profile_id = p.id
                WHERE p.tenant_id = $1 AND ($2 = '' OR p.name = $2)
                GROUP BY p.name ORDER BY p.name LIMIT $3
                """,
                caller.tenant_id,
                name,
                _MOST,
            )
        return [ProfileName(row["name"], row["created_at"]) for row in rows]
