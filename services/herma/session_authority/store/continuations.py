"""Finds or makes the session in which a conversation goes on after a turn.

Invariant: the turn's session is locked while it is decided, so of many that go on after its newest turn
exactly one does so there, and each other in a session of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from herma.common.errors import NotFound, TurnUnfinished
from herma.common.postgres import Connection
from herma.session_authority.domain.continuation import Continuation, check_past
from herma.session_authority.domain.model import Caller, TurnState
from herma.session_authority.domain.new_session import MAX_HISTORY
from herma.session_authority.store.locked_session import lock_of
from herma.session_authority.store.openings import open_session

_SESSION_OF = """
    SELECT session_id FROM authority.turns WHERE tenant_id = $1 AND principal_id = $2 AND id = $3
"""

_PLACE = """
    SELECT t.seq, t.state, s.id, s.instructions, p.name AS profile,
           EXISTS (SELECT FROM authority.turns n
                   WHERE n.tenant_id = $1 AND n.session_id = s.id AND n.seq > t.seq) AS overtaken
    FROM authority.turns t
    JOIN authority.sessions s ON s.tenant_id = t.tenant_id AND s.id = t.session_id
    JOIN authority.profiles p ON p.tenant_id = s.tenant_id AND p.id = s.profile_id
    WHERE t.tenant_id = $1 AND t.principal_id = $2 AND t.id = $3 AND s.principal_id = $2
"""

_PAST = """
    SELECT m.id, octet_length(m.content) AS size FROM authority.messages m
    LEFT JOIN authority.turns t ON t.tenant_id = m.tenant_id AND t.id = m.turn_id
    WHERE m.tenant_id = $1 AND m.session_id = $2 AND (m.turn_id IS NULL OR t.seq <= $3)
      AND m.role IN ('user', 'assistant') AND m.content <> ''
    ORDER BY m.position LIMIT $4
"""

# What was recalled beside a message is its profile's own: another one does not read it.
_TAKE_OVER = """
    WITH taken AS (
        INSERT INTO authority.messages (tenant_id, session_id, id, position, role, content, context,
                                        principal_id, trust)
        SELECT $1, $2, c.new_id, c.position, m.role, m.content, CASE WHEN $5 THEN m.context END,
               m.principal_id, m.trust
        FROM unnest($3::uuid[], $4::uuid[]) WITH ORDINALITY c (id, new_id, position)
        JOIN authority.messages m ON m.tenant_id = $1 AND m.id = c.id
    )
    UPDATE authority.sessions SET last_position = cardinality($3) WHERE tenant_id = $1 AND id = $2
"""


async def continued_session(
    connection: Connection, caller: Caller, after: Continuation, new_id: Callable[[], UUID]
) -> UUID:
    """The session that goes on after a turn: the turn's own, or one that begins with its past.

    Raises:
        NotFound: when the turn is not the caller's, or the wanted profile is unknown.
        TurnUnfinished: when another session is needed and the turn's past is not complete.
        InvalidArgument: when that past is too large.
    """
    asked = (caller.tenant_id, caller.principal_id, after.turn_id)
    session_id = await connection.fetchval(_SESSION_OF, *asked)
    if session_id is not None:
        await connection.execute(lock_of(caller.tenant_id, session_id))
    # By a statement of its own: what is read must be newer than the lock.
    place = await connection.fetchrow(_PLACE, *asked)
    if place is None:
        raise NotFound("no such turn", reason="TURN_NOT_FOUND")
    if not place["overtaken"] and after.fits(place["profile"], place["instructions"]):
        found: UUID = place["id"]
        return found
    if not TurnState(place["state"]).is_terminal:
        raise TurnUnfinished("what was said up to that turn is not complete; wait for its end")
    past = await connection.fetch(_PAST, caller.tenant_id, place["id"], place["seq"], MAX_HISTORY + 1)
    check_past(len(past), sum(message["size"] for message in past))
    new = after.new_session(place["profile"], place["instructions"])
    made = await open_session(connection, caller, new, new_id)
    ids = [message["id"] for message in past]
    same_profile = new.profile == place["profile"]
    await connection.execute(
        _TAKE_OVER, caller.tenant_id, made, ids, [new_id() for _ in ids], same_profile
    )
    return made
