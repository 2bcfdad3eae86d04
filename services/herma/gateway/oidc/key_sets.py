"""The keys of issuers: discovered, cached, and fetched again when a token names one that is not known.

Sources: OpenID Connect Discovery 1.0, RFC 7517 (key sets).

Invariant: how often an issuer is asked does not depend on who sends which tokens.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jwt

from herma.common.errors import HermaError, Unavailable
from herma.common.guarded_http import GuardedClient
from herma.common.logs import logger

# A key that an issuer took back works no longer than this.
_FRESH_SECONDS: Final = 600.0
# Between two fetches of one issuer's keys, whatever its tokens say.
_COOLDOWN_SECONDS: Final = 10.0
_MOST_KEYS: Final = 100
_MOST_BYTES: Final = 256 * 1024
_MOST_ISSUERS: Final = 1_000

_log = logger(__name__)

Fetch = Callable[[str], Awaitable[bytes]]


async def fetch_document(outside: GuardedClient, url: str) -> bytes:
    """Reads a document of an issuer.

    Raises:
        HermaError: when it cannot be had.
    """
    reply = await outside.request(
        "GET", url, headers={"accept": "application/json"}, timeout=5, max_bytes=_MOST_BYTES
    )
    if reply.status != 200:
        raise Unavailable(f"the document answers {reply.status}", reason="ISSUER_UNAVAILABLE")
    return reply.body


class KeysUnavailable(Unavailable):
    """The identity provider does not answer; try again."""

    reason = "ISSUER_UNAVAILABLE"


@dataclass(slots=True)
class _KeySet:
    """What is known of one issuer."""

    keys: Mapping[str, jwt.PyJWK] = field(default_factory=dict)
    fetched: float = float("-inf")
    tried: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class KeySets:
    """Keys by issuer and key id.

    Args:
        fetch: Reads a document by URL, within limits; raises `HermaError`.
    """

    def __init__(self, fetch: Fetch, now: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._now = now
        self._sets: OrderedDict[str, _KeySet] = OrderedDict()

    async def key(self, issuer: str, key_id: str) -> jwt.PyJWK | None:
        """The key that a token names; None when the issuer has none of that id.

        A token that names no key is meant for an issuer with one key only.

        Raises:
            KeysUnavailable: when the issuer's keys cannot be had.
        """
        known = self._sets.setdefault(issuer, _KeySet())
        self._sets.move_to_end(issuer)
        while len(self._sets) > _MOST_ISSUERS:
            self._sets.popitem(last=False)
        async with known.lock:
            is_fresh = self._now() - known.fetched < _FRESH_SECONDS
            found = _pick(known.keys, key_id)
            if is_fresh and found is not None:
                return found
            if self._now() - known.tried >= _COOLDOWN_SECONDS:
                await self._refresh(issuer, known)
                is_fresh, found = True, _pick(known.keys, key_id)
            if not is_fresh:
                raise KeysUnavailable(retry_after=_COOLDOWN_SECONDS)
            return found

    async def _refresh(self, issuer: str, known: _KeySet) -> None:
        known.tried = self._now()
        try:
            address = issuer.rstrip("/") + "/.well-known/openid-configuration"
            document = _object(await self._fetch(address))
            if document.get("issuer") != issuer:
                raise ValueError("the document is another issuer's")
            keys = _usable(_object(await self._fetch(str(document["jwks_uri"]))))
        except (HermaError, ValueError, KeyError) as error:
            reason = error.reason if isinstance(error, HermaError) else str(error)[:200]
            _log.warning("an issuer's keys cannot be had", issuer=issuer, reason=reason)
            if self._now() - known.fetched < _FRESH_SECONDS:
                return
            raise KeysUnavailable(retry_after=_COOLDOWN_SECONDS) from error
        known.keys = keys
        known.fetched = self._now()


def _pick(keys: Mapping[str, jwt.PyJWK], key_id: str) -> jwt.PyJWK | None:
    if not key_id and len(keys) == 1:
        return next(iter(keys.values()))
    return keys.get(key_id)


def _object(body: bytes) -> dict[str, Any]:
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError("the document is no object")
    return document


def _usable(document: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """Keys for signatures by id; those that we cannot use, and symmetric ones, are left out."""
    listed = document.get("keys")
    if not isinstance(listed, Sequence):
        raise ValueError("the key set has no keys")
    usable: dict[str, jwt.PyJWK] = {}
    for entry in listed[:_MOST_KEYS]:
        if not isinstance(entry, Mapping) or entry.get("kty") == "oct":
            continue
        if entry.get("use", "sig") != "sig":
            continue
        try:
            usable[str(entry.get("kid", ""))] = jwt.PyJWK(dict(entry))
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
    return usable
