"""An OpenID Connect issuer on loopback with keys that can be changed, and the tokens that it signs.

Sources: OpenID Connect Discovery 1.0, RFC 7517.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "herma"


@dataclass
class Key:
    """A signing key and how it is published."""

    kid: str
    algorithm: str
    private: Any

    def published(self) -> dict[str, Any]:
        kinds: dict[str, Any] = {"R": RSAAlgorithm, "P": RSAAlgorithm, "E": ECAlgorithm}
        kind = OKPAlgorithm if self.algorithm == "EdDSA" else kinds[self.algorithm[0]]
        public = kind.to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "use": "sig", "alg": self.algorithm}


def new_key(kid: str, algorithm: str = "ES256") -> Key:
    """A key for an algorithm of RFC 7518."""
    if algorithm == "EdDSA":
        return Key(kid, algorithm, ed25519.Ed25519PrivateKey.generate())
    if algorithm[0] == "E":
        return Key(kid, algorithm, ec.generate_private_key(ec.SECP256R1()))
    return Key(kid, algorithm, rsa.generate_private_key(65537, 2048))


@dataclass
class OidcIssuer:
    """What the issuer publishes, and how often it was asked."""

    url: str = ""
    keys: list[Key] = field(default_factory=lambda: [new_key("one")])
    # Instead of the documents, by path.
    answers: dict[str, bytes] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    def token(self, key: Key | None = None, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that is fine, but for what a test says; None takes a claim away."""
        key = key or self.keys[0]
        now = int(time.time())
        standard = {"iss": self.url, "aud": AUDIENCE, "sub": "kim", "iat": now, "exp": now + 300}
        whole = {name: value for name, value in {**standard, **claims}.items() if value is not None}
        return jwt.encode(
            whole, key.private, algorithm=key.algorithm, headers={"kid": key.kid, **(headers or {})}
        )

    def document(self, path: str) -> bytes | None:
        """What is published at a path."""
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            return json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        if path == "/keys":
            return json.dumps({"keys": [key.published() for key in self.keys]}).encode()
        return None


@asynccontextmanager
async def oidc_issuer() -> AsyncIterator[OidcIssuer]:
    """Serves an issuer."""
    issuer = OidcIssuer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split()[1]
            issuer.asked[path] += 1
            body = issuer.document(path)
            status = "404 Not Found" if body is None else "200 OK"
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body or b'')}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + (body or b""))
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    issuer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield issuer
