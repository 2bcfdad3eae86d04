"""A response's name: that of its turn, so that it needs no record of its own.

Whose a name is, is decided where the turn is read: by tenant, principal and id at once.
"""

from __future__ import annotations

from uuid import UUID

from herma.common.errors import InvalidArgument, NotFound
from herma.common.ids import parse_id

_PREFIX = "resp_"


def response_id(turn_id: str) -> str:
    """The response that is a turn."""
    return _PREFIX + turn_id


def missing() -> NotFound:
    """There is no such response, or it is not the caller's."""
    return NotFound("no such response", reason="RESPONSE_NOT_FOUND")


def missing_previous() -> NotFound:
    """As `missing`, of the response that a request goes on from."""
    return NotFound("no such response", reason="PREVIOUS_RESPONSE_NOT_FOUND")


def turn_of(name: str) -> str:
    """The turn that is a response.  What is no name never was one.

    Raises:
        NotFound: for other text.
    """
    if not name.startswith(_PREFIX):
        raise missing()
    try:
        return str(parse_id(name.removeprefix(_PREFIX), "id"))
    except InvalidArgument as error:
        raise missing() from error


def created_at(turn_id: str) -> int:
    """When a turn was admitted, in Unix seconds: the first 48 bits of a UUIDv7 (RFC 9562) are
    milliseconds."""
    return (UUID(turn_id).int >> 80) // 1000
