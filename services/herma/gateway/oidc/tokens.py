"""Tokens of OpenID Connect issuers: who bears one, or a refusal that tells nothing.

Sources: RFC 7519 (JWT), RFC 8725 (its best practices), RFC 9068 (access tokens), OpenID Connect Core 1.0.

Invariant: nothing that a token says is believed before its signature holds under a key of an issuer that
a tenant accepts, by an algorithm that the tenant chose.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import jwt

from herma.api.issuer.v1 import issuer_pb2
from herma.common.errors import NotFound, Unauthenticated
from herma.common.logs import logger
from herma.gateway.issuers import Issuers
from herma.gateway.oidc.key_sets import KeySets

_MOST_BYTES: Final = 16 * 1024
_MOST_AUDIENCES: Final = 16
_MOST_GROUPS: Final = 1_000
# Between our clock and the issuer's.
_LEEWAY_SECONDS: Final = 30
# How long it may take until an issuer that was registered or removed is noticed.
_REMEMBER_SECONDS: Final = 5.0
_REMEMBERED: Final = 10_000
_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt", "")
_NAMES: Final = ("name", "preferred_username", "email")

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whom a token names, after all of it was checked.  `expires_at` is a Unix time."""

    tenant_id: str
    issuer_id: str
    subject: str
    name: str
    groups: Sequence[str]
    expires_at: float


class TokenVerifier:
    """Checks tokens."""

    def __init__(
        self, issuers: Issuers, keys: KeySets, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuers = issuers
        self._keys = keys
        self._now = now
        self._found: OrderedDict[tuple[str, ...], tuple[float, issuer_pb2.FindIssuerResponse | None]] = (
            OrderedDict()
        )

    async def bearer(self, token: str) -> Bearer:
        """Whom a token names.

        Raises:
            Unauthenticated: for any token that is not accepted; the reason is in the log only.
            Unavailable: when the issuer's keys cannot be had.
        """
        try:
            return await self._verified(token)
        except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError) as error:
            _refuse(type(error).__name__, error)

    async def _verified(self, token: str) -> Bearer:
        if len(token) > _MOST_BYTES or not token.isascii():
            _refuse("it is too large")
        header = jwt.get_unverified_header(token)
        claimed = jwt.decode_complete(token, options={"verify_signature": False})["payload"]
        accepted = await self._accepted(claimed)
        issuer = accepted.issuer
        algorithm = str(header.get("alg"))
        if algorithm not in issuer.algorithms:
            _refuse("its algorithm is not accepted")
        if str(header.get("typ", "")).lower() not in _TYPES or "crit" in header or "events" in claimed:
            _refuse("it is of another kind")
        key = await self._keys.key(issuer.issuer, str(header.get("kid", "")))
        if key is None:
            _refuse("its key is not known")
        claims = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud", "sub"], "strict_aud": False},
        )
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
            _refuse("its subject is not usable")
        return Bearer(
            accepted.tenant_id,
            issuer.id,
            subject,
            _name(claims),
            _groups(claims, issuer.role_claim),
            float(claims["exp"]) + _LEEWAY_SECONDS,
        )

    async def _accepted(self, claimed: Mapping[str, Any]) -> issuer_pb2.FindIssuerResponse:
        issuer, audience = claimed.get("iss"), claimed.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if (
            not isinstance(issuer, str)
            or not isinstance(audiences, list)
            or not 0 < len(audiences) <= _MOST_AUDIENCES
            or not all(isinstance(one, str) and len(one) <= 255 for one in audiences)
            or not _is_storable(issuer, *audiences)
        ):
            _refuse("issuer or audience are not usable")
        asked = (issuer, *sorted(audiences))
        known = self._found.get(asked)
        if known is None or known[0] < self._now():
            try:
                found = await self._issuers.find(issuer, audiences)
            except NotFound:
                found = None
            known = (self._now() + _REMEMBER_SECONDS, found)
            self._found[asked] = known
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
        if known[1] is None:
            _refuse("nobody accepts its issuer for its audience")
        return known[1]


def _is_storable(*texts: str) -> bool:
    try:
        return all(len(text) <= 500 and "\0" not in text and text.encode() is not None for text in texts)
    except UnicodeEncodeError:
        return False


def _refuse(why: str, cause: BaseException | None = None) -> NoReturn:
    _log.info("a token was refused", why=why)
    raise Unauthenticated("the token is not accepted", reason="TOKEN_INVALID") from cause


def _name(claims: Mapping[str, Any]) -> str:
    for claim in _NAMES:
        value = claims.get(claim)
        if isinstance(value, str) and value.strip():
            return value.encode("utf-8", "replace").decode()[:200]
    return ""


def _groups(claims: Mapping[str, Any], path: str) -> Sequence[str]:
    """The values of a claim; a dot leads into an object, unless there is a claim of that very name."""
    if not path:
        return ()
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(
        one.encode("utf-8", "replace").decode()
        for one in values[:_MOST_GROUPS]
        if isinstance(one, str) and len(one) <= 200
    )
