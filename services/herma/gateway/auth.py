"""Who calls: an API key or a token in `Authorization: Bearer`, never in a URL."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase

from herma.api.ledger.v1 import ledger_pb2
from herma.common.errors import PermissionDenied, Unauthenticated
from herma.gateway.authority import Authority
from herma.gateway.oidc.tokens import TokenVerifier

# A revoked key works no longer than this.
_CACHE_SECONDS = 2.0
_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class Visitor:
    """An authenticated caller."""

    caller: ledger_pb2.Caller
    scopes: frozenset[str]

    def need(self, scope: str) -> None:
        """Insists on a scope.

        Raises:
            PermissionDenied: without it.
        """
        if not self.has(scope):
            raise PermissionDenied(f"the scope {scope!r} is missing", reason="SCOPE_MISSING")

    def has(self, scope: str) -> bool:
        """Whether it holds a scope, or one that implies it: who may use agents may read."""
        return scope in self.scopes or (scope == "read" and "agent" in self.scopes)


class Doorkeeper:
    """Authenticates requests, by API key or by a token of an issuer."""

    def __init__(
        self,
        authority: Authority,
        tokens: TokenVerifier,
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._authority = authority
        self._tokens = tokens
        self._now = now
        self._clock = clock
        self._seen: OrderedDict[bytes, tuple[float, Visitor]] = OrderedDict()

    async def visitor(self, authorization: str) -> Visitor:
        """Who sends this header.

        Raises:
            Unauthenticated: when it is missing, malformed, or its key or token does not work.
        """
        scheme, _, credential = authorization.partition(" ")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential:
            raise Unauthenticated(
                "send an API key or a token as `Authorization: Bearer …`", reason="API_KEY_MISSING"
            )
        digest = hashlib.sha256(credential.encode()).digest()
        cached = self._seen.get(digest)
        if cached is not None and cached[0] > self._now():
            return cached[1]
        self._seen.pop(digest, None)
        if credential.count(".") == 2:
            visitor, seconds = await self._bearer(credential)
        else:
            visitor, seconds = await self._key_holder(credential), _CACHE_SECONDS
        self._seen[digest] = (self._now() + seconds, visitor)
        if len(self._seen) > _CACHED:
            self._seen.popitem(last=False)
        return visitor

    async def _key_holder(self, key: str) -> Visitor:
        found = await self._authority.identities.authenticate(key)
        return Visitor(found.caller, frozenset(found.scopes))

    async def _bearer(self, token: str) -> tuple[Visitor, float]:
        bearer = await self._tokens.bearer(token)
        found = await self._authority.identities.enter(
            bearer.tenant_id, bearer.issuer_id, bearer.subject, bearer.name, bearer.groups
        )
        visitor = Visitor(found.caller, frozenset(found.scopes))
        return visitor, min(_CACHE_SECONDS, bearer.expires_at - self._clock())

    def forget(self, key_id: str) -> None:
        """Drops what is remembered of a key: here, a revoked key stops working at once."""
        for digest in [
            digest for digest, (_, known) in self._seen.items() if known.caller.key_id == key_id
        ]:
            del self._seen[digest]


async def visitor_with(request: Request, *scopes: str) -> Visitor:
    """The visitor of a request, who must hold the scopes.

    Raises:
        Unauthenticated: without a key or token that works.
        PermissionDenied: without one of the scopes.
    """
    doorkeeper: Doorkeeper = request.app.state.doorkeeper
    visitor = await doorkeeper.visitor(request.headers.get("authorization", ""))
    for scope in scopes:
        visitor.need(scope)
    return visitor


class Door(SecurityBase):
    """The dependency that lets a visitor in; the OpenAPI document names the scopes of each operation."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="An API key, or a token of an accepted issuer.")
        self.scheme_name = "ApiKey"

    async def __call__(self, request: Request, needed: SecurityScopes) -> Visitor:
        """As `visitor_with`."""
        return await visitor_with(request, *needed.scopes)


DOOR: Final = Door()
