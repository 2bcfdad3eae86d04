"""API keys: `herma_<prefix>_<secret>`; the prefix may be shown, only a hash is stored.

The secret has 256 bits, so a plain SHA-256 is as good as a slow hash and looks up by index.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

_KEY = re.compile(r"herma_(?P<prefix>[a-z0-9]{8})_[A-Za-z0-9_-]{43}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret."""

    id: UUID
    principal_id: UUID
    name: str
    prefix: str
    scopes: Sequence[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    created_by: UUID
    # Within a minute.
    last_used_at: datetime | None


def mint_key(token: Callable[[int], str] = secrets.token_urlsafe) -> str:
    """A new key's text."""
    prefix = "".join(secrets.choice(_ALPHABET) for _ in range(8))
    return f"herma_{prefix}_{token(32)}"


def key_prefix(key: str) -> str | None:
    """The part that may be shown; None for text that is no key."""
    match = _KEY.fullmatch(key)
    return f"herma_{match['prefix']}" if match else None


def key_hash(key: str) -> bytes:
    """What is stored."""
    return hashlib.sha256(key.encode()).digest()
