"""What may be admitted."""

from __future__ import annotations

import hashlib

from herma.common.errors import InvalidArgument
from herma.common.lines import is_label, is_line

MAX_CONTENT_BYTES = 512 * 1024
MAX_TITLE = 200
MAX_KEY = 200
MAX_IDEMPOTENCY_KEY = 255
MAX_MEMO_BYTES = 64 * 1024


def check_content(content: str) -> None:
    """Refuses an input that is empty, too large, or holds what PostgreSQL cannot store.

    Raises:
        InvalidArgument: naming the field `content`.
    """
    if not content.strip():
        raise InvalidArgument("the content is empty", fields={"content": "must not be empty"})
    if len(content.encode()) > MAX_CONTENT_BYTES:
        raise InvalidArgument(
            "the content is too large", fields={"content": f"at most {MAX_CONTENT_BYTES} bytes"}
        )
    if "\0" in content:
        raise InvalidArgument("the content has a NUL", fields={"content": "must not contain U+0000"})


def check_memo(memo: str) -> None:
    """Refuses a memo that is too large, or holds what PostgreSQL cannot store.

    Raises:
        InvalidArgument: naming `memo`.
    """
    if len(memo.encode()) > MAX_MEMO_BYTES:
        raise InvalidArgument("the memo is too large", fields={"memo": f"at most {MAX_MEMO_BYTES} bytes"})
    if "\0" in memo:
        raise InvalidArgument("the memo has a NUL", fields={"memo": "must not contain U+0000"})


def check_mode(mode: str, kind: str) -> None:
    """Refuses what this release does not do.

    Raises:
        InvalidArgument: naming `mode` or `kind`.
    """
    if mode not in ("", "queue"):
        raise InvalidArgument(f"mode {mode!r} is not known", fields={"mode": "must be `queue`"})
    if kind not in ("", "message"):
        raise InvalidArgument(f"kind {kind!r} is not known", fields={"kind": "must be `message`"})


def check_line(text: str, field: str, limit: int) -> None:
    """Refuses text for people or names that is too long or has control characters.

    Raises:
        InvalidArgument: naming `field`.
    """
    if len(text) > limit:
        raise InvalidArgument(f"{field} is too long", fields={field: f"at most {limit} characters"})
    if not is_line(text):
        raise InvalidArgument(f"{field} has control characters", fields={field: "must be one line"})


def check_idempotency_key(key: str) -> None:
    """Refuses a key that is too long or has control characters; an empty one is none.

    Raises:
        InvalidArgument: naming `idempotency_key`.
    """
    check_line(key, "idempotency_key", MAX_IDEMPOTENCY_KEY)


def check_tenant_name(name: str) -> None:
    """Refuses a name that is no DNS label.

    Raises:
        InvalidArgument: naming `name`.
    """
    if not is_label(name):
        raise InvalidArgument(
            "the name is not usable",
            fields={"name": "1 to 63 of a-z, 0-9 and -, not at either end"},
        )


def request_digest(*parts: str) -> bytes:
    """SHA-256 over the parts, each with its length, so that no two requests share one."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.digest()
