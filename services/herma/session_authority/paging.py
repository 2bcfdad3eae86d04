"""Pages of lists: sizes, and tokens that say where the next page begins."""

from __future__ import annotations

import base64
import binascii

from herma.common.errors import InvalidArgument

_MAX_PAGE = 200
_PAGE = 50


def page_size(asked: int) -> int:
    if not 0 <= asked <= _MAX_PAGE:
        raise InvalidArgument("no such page size", fields={"page_size": f"1 to {_MAX_PAGE}"})
    return asked or _PAGE


def to_token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def from_token(token: str) -> str:
    try:
        padded = token + "=" * (-len(token) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument("no such page", fields={"page_token": "is not valid"}) from error
