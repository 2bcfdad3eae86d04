"""The error tree: one class for each way in which a request can be refused.

Domains raise these; they know nothing of transports.  `rpc.status` maps them to gRPC once, `problem`
maps them to HTTP once.  `reason` is stable and public: clients branch on it, never on `message`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import ClassVar

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Kind(Enum):
    """What sort of refusal it is; decides the gRPC code and the HTTP status."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    PRECONDITION = "precondition"
    STALE = "stale"
    OUT_OF_RANGE = "out_of_range"
    EXHAUSTED = "exhausted"
    UNAVAILABLE = "unavailable"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


class HermaError(Exception):
    """Base of every refusal.

    Args:
        message: For people; never holds a secret or another tenant's data.
        fields: For INVALID, what is wrong with which field.
        metadata: Small, public facts for programs.
        retry_after: Seconds after which a retry makes sense, if known.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    reason: str = "INTERNAL"

    def __init__(
        self,
        message: str = "",
        *,
        reason: str | None = None,
        fields: Mapping[str, str] = _NOTHING,
        metadata: Mapping[str, str] = _NOTHING,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or self.__class__.__doc__ or self.reason)
        if reason is not None:
            self.reason = reason
        self.fields = fields
        self.metadata = metadata
        self.retry_after = retry_after

    @property
    def message(self) -> str:
        """The text for people."""
        return str(self.args[0])


class InvalidArgument(HermaError):
    """The request is malformed."""

    kind = Kind.INVALID
    reason = "INVALID_ARGUMENT"


class Unauthenticated(HermaError):
    """Missing or unusable credentials."""

    kind = Kind.UNAUTHENTICATED
    reason = "UNAUTHENTICATED"


class PermissionDenied(HermaError):
    """The caller may not do this."""

    kind = Kind.FORBIDDEN
    reason = "PERMISSION_DENIED"


class NotFound(HermaError):
    """There is no such thing, or it is not the caller's."""

    kind = Kind.NOT_FOUND
    reason = "NOT_FOUND"


class AlreadyExists(HermaError):
    """The name is taken."""

    kind = Kind.CONFLICT
    reason = "ALREADY_EXISTS"


class IdempotencyConflict(HermaError):
    """The idempotency key was used for another request."""

    kind = Kind.CONFLICT
    reason = "IDEMPOTENCY_CONFLICT"


class LastOwner(HermaError):
    """Without it, the tenant would have no owner that may act."""

    kind = Kind.CONFLICT
    reason = "LAST_OWNER"


class TurnUnfinished(HermaError):
    """The turn has not ended."""

    kind = Kind.CONFLICT
    reason = "TURN_UNFINISHED"


class SessionGoesOn(HermaError):
    """The session holds other turns."""

    kind = Kind.CONFLICT
    reason = "SESSION_GOES_ON"


class LeaseLost(HermaError):
    """The lease is not the newest one; the holder must stop without writing."""

    kind = Kind.PRECONDITION
    reason = "LEASE_LOST"


class StepConflict(HermaError):
    """The step is neither the next one nor a repeat of the last."""

    kind = Kind.STALE
    reason = "STEP_CONFLICT"


class SandboxLost(HermaError):
    """The sandbox instance that was named is gone."""

    kind = Kind.STALE
    reason = "SANDBOX_LOST"


class NoteChanged(HermaError):
    """The note has a newer version."""

    kind = Kind.STALE
    reason = "NOTE_CHANGED"


class ProfileChanged(HermaError):
    """The profile has a newer version."""

    kind = Kind.STALE
    reason = "PROFILE_CHANGED"


class PrincipalChanged(HermaError):
    """The principal has a newer version."""

    kind = Kind.STALE
    reason = "PRINCIPAL_CHANGED"


class CursorOutOfRange(HermaError):
    """The cursor lies beyond the newest event."""

    kind = Kind.OUT_OF_RANGE
    reason = "CURSOR_OUT_OF_RANGE"


class ResourceExhausted(HermaError):
    """A limit is reached."""

    kind = Kind.EXHAUSTED
    reason = "RESOURCE_EXHAUSTED"


class Unavailable(HermaError):
    """A part of the platform does not answer; try again."""

    kind = Kind.UNAVAILABLE
    reason = "UNAVAILABLE"


class SandboxUnavailable(Unavailable):
    """The sandbox infrastructure does not answer; try again."""

    reason = "SANDBOX_UNAVAILABLE"


class DeadlineExceeded(HermaError):
    """The deadline passed."""

    kind = Kind.DEADLINE
    reason = "DEADLINE_EXCEEDED"


class Cancelled(HermaError):
    """The caller went away."""

    kind = Kind.CANCELLED
    reason = "CANCELLED"


class Internal(HermaError):
    """Something is broken in Herma; the log of the service has the details."""


_BY_REASON: Mapping[str, type[HermaError]] = MappingProxyType(
    {
        cls.reason: cls
        for cls in (
            InvalidArgument,
            Unauthenticated,
            PermissionDenied,
            NotFound,
            AlreadyExists,
            IdempotencyConflict,
            LastOwner,
            TurnUnfinished,
            SessionGoesOn,
            LeaseLost,
            StepConflict,
            SandboxLost,
            NoteChanged,
            ProfileChanged,
            PrincipalChanged,
            CursorOutOfRange,
            ResourceExhausted,
            Unavailable,
            SandboxUnavailable,
            DeadlineExceeded,
            Cancelled,
            Internal,
        )
    }
)

_BY_KIND: Mapping[Kind, type[HermaError]] = MappingProxyType(
    {
        Kind.INVALID: InvalidArgument,
        Kind.UNAUTHENTICATED: Unauthenticated,
        Kind.FORBIDDEN: PermissionDenied,
        Kind.NOT_FOUND: NotFound,
        Kind.CONFLICT: AlreadyExists,
        Kind.PRECONDITION: LeaseLost,
        Kind.STALE: StepConflict,
        Kind.OUT_OF_RANGE: CursorOutOfRange,
        Kind.EXHAUSTED: ResourceExhausted,
        Kind.UNAVAILABLE: Unavailable,
        Kind.DEADLINE: DeadlineExceeded,
        Kind.CANCELLED: Cancelled,
        Kind.INTERNAL: Internal,
    }
)


def error_for(kind: Kind, reason: str, message: str) -> HermaError:
    """Rebuilds the error that a peer raised, from its reason, else from its kind alone."""
    known = _BY_REASON.get(reason)
    if known is not None and known.kind is kind:
        return known(message)
    return _BY_KIND[kind](message, reason=reason or None)
