"""The turn token: a lease's identity, signed by session-authority, carried by its runner.

Services take tenant, session, turn, principal and epoch from it and never from a request's fields, so
a runner can act for nobody but the turns that it was given.  A JWT (RFC 7519) signed with Ed25519
(RFC 8037): only session-authority holds the private key.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from herma.common.errors import Unauthenticated

TURN_TOKEN_KEY = "herma-turn-token"  # noqa: S105  # the name of the metadata entry

_ALGORITHM = "EdDSA"
_AUDIENCE = "herma-turn"


@dataclass(frozen=True, slots=True)
class TurnIdentity:
    """Whom a call acts for.  `epoch` fences it; `expires_at` is in Unix seconds."""

    tenant_id: UUID
    session_id: UUID
    turn_id: UUID
    profile_id: UUID
    principal_id: UUID
    # `trusted` or `untrusted`: of the input that the turn works on.
    trust: str
    epoch: int
    expires_at: int


class TurnTokenSigner:
    """Signs identities.  Built from the PEM of an Ed25519 private key."""

    def __init__(self, private_key_pem: bytes) -> None:
        key = load_pem_private_key(private_key_pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError("the turn token key is not an Ed25519 private key")
        self._key = key

    @property
    def public_key_pem(self) -> bytes:
        """What verifiers need, as PEM."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, identity: TurnIdentity) -> str:
        """The token's text."""
        return jwt.encode(
            {
                "aud": _AUDIENCE,
                "exp": identity.expires_at,
                "tenant": str(identity.tenant_id),
                "session": str(identity.session_id),
                "turn": str(identity.turn_id),
                "profile": str(identity.profile_id),
                "principal": str(identity.principal_id),
                "trust": identity.trust,
                "epoch": identity.epoch,
            },
            self._key,
            algorithm=_ALGORITHM,
        )


class TurnTokenVerifier:
    """Verifies tokens, remembering those it has seen until they expire."""

    def __init__(
        self,
        public_key_pem: bytes,
        now: Callable[[], float] = time.time,
        remembered: int = 4096,
    ) -> None:
        key = load_pem_public_key(public_key_pem)
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError("the turn token key is not an Ed25519 public key")
        self._key = key
        self._now = now
        self._remembered = remembered
        self._seen: OrderedDict[str, TurnIdentity] = OrderedDict()

    def verify(self, token: str) -> TurnIdentity:
        """The identity in the token.

        Raises:
            Unauthenticated: for a token that is missing, forged, expired or made for something else.
        """
        identity = self._seen.get(token)
        if identity is None:
            identity = self._decode(token)
            self.remember(token, identity)
        if identity.expires_at <= self._now():
            raise Unauthenticated("the turn token has expired", reason="TURN_TOKEN_INVALID")
        return identity

    def remember(self, token: str, identity: TurnIdentity) -> None:
        """Takes a token as verified: its signer's own."""
        self._seen[token] = identity
        if len(self._seen) > self._remembered:
            self._seen.popitem(last=False)

    def _decode(self, token: str) -> TurnIdentity:
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[_ALGORITHM],
                audience=_AUDIENCE,
                options={"verify_exp": False, "require": ["exp", "aud"]},
            )
            return TurnIdentity(
                tenant_id=UUID(claims["tenant"]),
                session_id=UUID(claims["session"]),
                turn_id=UUID(claims["turn"]),
                profile_id=UUID(claims["profile"]),
                principal_id=UUID(claims["principal"]),
                trust=str(claims["trust"]),
                epoch=int(claims["epoch"]),
                expires_at=int(claims["exp"]),
            )
        except (jwt.PyJWTError, KeyError, ValueError, TypeError) as error:
            raise Unauthenticated("the turn token is not valid", reason="TURN_TOKEN_INVALID") from error
