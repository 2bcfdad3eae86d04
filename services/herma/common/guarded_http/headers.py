"""Which headers a caller may give.

Source: RFC 9110 §5 (fields), §7.6.1 (connection-specific fields).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from herma.common.errors import InvalidArgument

Headers = Sequence[tuple[str, str]]

MAX_HEADERS: Final = 32 * 1024

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# Printable ASCII: what lies beyond is read differently by different servers.
_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
# They say how this request is framed, and to whom it goes: ours to set.
_FRAMING: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# They travel as a `Credential`.
_CREDENTIALS: Final = frozenset({"authorization", "cookie"})


def check_headers(headers: Mapping[str, str]) -> Headers:
    """The headers with lower-case names.

    Raises:
        InvalidArgument: for one that cannot be sent or is not the caller's to set.
    """
    if sum(len(name) + len(value) for name, value in headers.items()) > MAX_HEADERS:
        raise InvalidArgument(f"the headers are larger than {MAX_HEADERS} bytes")
    for name, value in headers.items():
        _check(name, value)
        if name.lower() in _FRAMING | _CREDENTIALS:
            raise InvalidArgument(f"the header {name!r} is not the caller's to set")
    if len({name.lower() for name in headers}) < len(headers):
        raise InvalidArgument("a header is given twice")
    return [(name.lower(), value) for name, value in headers.items()]


def check_credential(name: str, value: str) -> None:
    """Refuses a credential's header that cannot be sent.

    Raises:
        InvalidArgument: without the value in its message.
    """
    _check(name, value)
    if len(value) > MAX_HEADERS:
        raise InvalidArgument(f"the header {name!r} is larger than {MAX_HEADERS} bytes")
    if name.lower() in _FRAMING:
        raise InvalidArgument(f"the header {name!r} cannot be a credential")


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidArgument("a header has a name that cannot be sent")
    if not _VALUE.fullmatch(value):
        raise InvalidArgument(f"the header {name!r} has a value that cannot be sent")
