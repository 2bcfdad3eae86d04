"""Pages of lists: sizes, and tokens that say where the next page begins."""

from __future__ import annotations

import base64
import binascii
from uuid import UUID

from herma.common.errors import InvalidArgument, NotFound
from herma.common.ids import parse_id

_MAX_PAGE = 200
_PAGE = 50


def page_size(asked: int) -> int:
    if not 0 <= asked <= _MAX_PAGE:
        raise InvalidArgument("no such page size", fields={"page_size": f"1 to {_MAX_PAGE}"})
    return asked or _PAGE


def to_token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def from_token(token: str) -> str:
    """What a token says; empty for the first page.

    Raises:
        NotFound: for what is no token of ours.
    """
    try:
        padded = token + "=" * (-len(token) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise _no_page() from error
    if "\0" in text:
        raise _no_page()
    return text


def id_of_token(token: str) -> UUID | None:
    """The id that a page begins behind; None for the first page.

    Raises:
        NotFound: for what is no token of ours.
    """
    text = from_token(token)
    if not text:
        return None
    try:
        return parse_id(text, "page_token")
    except InvalidArgument as error:
        raise _no_page() from error


def number_of_token(token: str) -> int:
    """The number that a page begins behind; 0 for the first page.

    Raises:
        NotFound: for what is no token of ours.
    """
    text = from_token(token)
    if text and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _no_page()
    return int(text or 0)


def _no_page() -> NotFound:
    return NotFound("no such page", reason="PAGE_NOT_FOUND")
