"""Makes sessions, with what they begin with, inside a transaction of the caller's.

Invariant: what is imported is there from the session's first moment or never, so no turn runs before it.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from herma.common.errors import NotFound
from herma.common.postgres import Connection
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.new_session import NewSession


async def open_session(
    connection: Connection, caller: Caller, new: NewSession, new_id: Callable[[], UUID]
) -> UUID:
    """Makes a session, or takes the one that its key names; its id.

    Raises:
        NotFound: for a profile that there is not, or that the caller may not use.
    """
    name = new.profile or "default"
    profile_id = await connection.fetchval(
        """
        SELECT id FROM authority.profiles
        WHERE tenant_id = $1 AND name = $2 AND authority.has_right($1, $3, id, 'use')
        """,
        caller.tenant_id,
        name,
        caller.principal_id,
    )
    if profile_id is None:
        raise NotFound(f"no profile {name!r}", reason="PROFILE_NOT_FOUND")
    session_id = new_id()
    made = await connection.fetchval(
        """
        INSERT INTO authority.sessions (tenant_id, id, principal_id, profile_id, key, title,
                                        instructions, last_position)
        VALUES ($1, $2, $3, $4, nullif($5, ''), $6, $7, $8)
        ON CONFLICT (tenant_id, principal_id, key) DO NOTHING RETURNING true
        """,
        caller.tenant_id,
        session_id,
        caller.principal_id,
        profile_id,
        new.key,
        new.title,
        new.instructions,
        len(new.history),
    )
    if made:
        await _import_history(connection, caller, session_id, new, new_id)
        return session_id
    named: UUID = await connection.fetchval(
        "SELECT id FROM authority.sessions WHERE tenant_id = $1 AND principal_id = $2 AND key = $3",
        caller.tenant_id,
        caller.principal_id,
        new.key,
    )
    return named


async def _import_history(
    connection: Connection, caller: Caller, session_id: UUID, new: NewSession, new_id: Callable[[], UUID]
) -> None:
    if not new.history:
        return
    await connection.execute(
        """
        INSERT INTO authority.messages (tenant_id, session_id, id, position, role, content,
                                        principal_id, trust)
        SELECT $1, $2, m.id, m.position, m.role, m.content, $3, 'trusted'
        FROM unnest($4::uuid[], $5::bigint[], $6::text[], $7::text[]) m (id, position, role, content)
        """,
        caller.tenant_id,
        session_id,
        caller.principal_id,
        [new_id() for _ in new.history],
        list(range(1, len(new.history) + 1)),
        [message.role for message in new.history],
        [message.content for message in new.history],
    )
