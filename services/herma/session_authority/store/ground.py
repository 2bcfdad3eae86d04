"""What an append stands on: the locked session, the turn, and whether the lease is the newest."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from herma.common.postgres import Connection
from herma.common.turn_token import TurnIdentity
from herma.session_authority.domain.model import StepOutcome
from herma.session_authority.domain.operations import Step
from herma.session_authority.store.locked_session import LockedSession

_READ = """
    SELECT s.principal_id, s.profile_id, s.last_seq, s.last_position, s.epoch,
           t.attempt, t.last_step, t.open_message_id, t.interrupt_requested,
           t.profile_version,
           EXISTS (SELECT FROM authority.calls c
                   WHERE c.tenant_id = $1 AND c.turn_id = $3
                     AND c.state IN ('proposed', 'allowed', 'denied', 'awaiting', 'running'))
               AS has_open_calls,
           EXISTS (SELECT FROM authority.leases l
                   WHERE l.tenant_id = $1 AND l.session_id = $2 AND l.turn_id = $3 AND l.epoch = $4
                     AND s.epoch = $4) AS held,
           done.message_ids, done.call_ids, done.last_seq AS done_seq
    FROM authority.sessions s
    JOIN authority.turns t ON t.tenant_id = s.tenant_id AND t.session_id = s.id AND t.id = $3
    LEFT JOIN authority.steps done ON done.tenant_id = t.tenant_id AND done.turn_id = t.id
         AND done.step = t.last_step AND done.step = $5 AND done.digest = $6 AND done.epoch = $4
    WHERE s.tenant_id = $1 AND s.id = $2
"""


@dataclass(slots=True)
class OpenTurn:
    """The turn that a step is appended to.

    `open_message_id` follows the step's operations; `has_open_calls` is true when there may be some.
    """

    id: UUID
    attempt: int
    last_step: int
    open_message_id: UUID | None
    interrupt_requested: bool
    profile_version: int
    has_open_calls: bool


@dataclass(frozen=True, slots=True)
class Ground:
    """`held` is whether the caller's lease is the newest; `repeated` the answer to give again."""

    session: LockedSession
    turn: OpenTurn
    held: bool
    repeated: StepOutcome | None


async def read_ground(connection: Connection, identity: TurnIdentity, step: Step) -> Ground | None:
    """Reads all of it in one statement; the session is locked.  None when there is no such session."""
    row = await connection.fetchrow(
        _READ,
        identity.tenant_id,
        identity.session_id,
        identity.turn_id,
        identity.epoch,
        step.number,
        step.digest,
    )
    if row is None:
        return None
    session = LockedSession(
        connection,
        identity.tenant_id,
        identity.session_id,
        row["principal_id"],
        row["profile_id"],
        row["last_seq"],
        row["last_position"],
        row["epoch"],
    )
    turn = OpenTurn(
        identity.turn_id,
        row["attempt"],
        row["last_step"],
        row["open_message_id"],
        row["interrupt_requested"],
        row["profile_version"],
        row["has_open_calls"],
    )
    repeated = None
    if row["done_seq"] is not None:
        repeated = StepOutcome(
            tuple(row["message_ids"]),
            tuple(row["call_ids"]),
            row["done_seq"],
            row["interrupt_requested"],
        )
    return Ground(session, turn, row["held"], repeated)
