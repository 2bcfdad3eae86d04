"""Tokens: only what an accepted issuer signed lets in, and how often it is asked is bounded."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from tests.component.gateway.wire_authority import WireAuthority
from tests.support.oidc_issuer import AUDIENCE, OidcIssuer, new_key, oidc_issuer

from herma.api.issuer.v1 import issuer_pb2
from herma.gateway.oidc.key_sets import KeySets, KeysUnavailable

PATH = "/v1/keys"
CONFIGURATION = "/.well-known/openid-configuration"


@pytest.fixture
async def issuer(authority: WireAuthority) -> AsyncIterator[OidcIssuer]:
    """An issuer that the authority accepts."""
    async with oidc_issuer() as served:
        authority.issuer = issuer_pb2.Issuer(
            id="i1",
            issuer=served.url,
            audience=AUDIENCE,
            algorithms=["ES256", "RS256", "EdDSA"],
            role_claim="realm.groups",
        )
        yield served


async def status(client: httpx.AsyncClient, token: str) -> tuple[int, str]:
    answer = await client.get(PATH, headers={"Authorization": f"Bearer {token}"})
    return answer.status_code, answer.json().get("reason", "")


def unsigned(token: str, header: dict[str, Any]) -> str:
    encoded = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return f"{encoded}.{token.split('.')[1]}."


def signed_with_secret(token: str, header: dict[str, Any], secret: bytes) -> str:
    """The library refuses to sign like this."""
    signed = unsigned(token, header).rstrip(".")
    digest = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
async def test_a_bearer_is_let_in_with_what_the_token_says(
    anonymous: httpx.AsyncClient, authority: WireAuthority, issuer: OidcIssuer, algorithm: str
) -> None:
    issuer.keys = [new_key("k", algorithm)]
    groups = ["ops", 7, "x" * 300, "dev"]
    token = issuer.token(name="Kim", realm={"groups": groups}, aud=["other", AUDIENCE], tenant_id="evil")
    assert await status(anonymous, token) == (200, "")
    (entered,) = authority.entered
    assert (entered.tenant_id, entered.issuer_id, entered.subject) == ("t", "i1", "kim")
    assert (entered.name, list(entered.groups)) == ("Kim", ["ops", "dev"])


async def test_scopes_are_those_of_the_role(
    anonymous: httpx.AsyncClient, authority: WireAuthority, issuer: OidcIssuer
) -> None:
    authority.token_scopes = ("read",)
    assert await status(anonymous, issuer.token()) == (403, "SCOPE_MISSING")


async def test_what_is_not_in_order_is_refused_alike(
    anonymous: httpx.AsyncClient, authority: WireAuthority, issuer: OidcIssuer
) -> None:
    now = int(time.time())
    stranger = new_key("one")
    good = issuer.token()
    head, body, signature = good.split(".")
    public = (
        issuer.keys[0]
        .private.public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    bad = {
        "expired": issuer.token(exp=now - 60),
        "not yet": issuer.token(nbf=now + 600),
        "issued later": issuer.token(iat=now + 600),
        "no expiry": issuer.token(exp=None),
        "no subject": issuer.token(sub=None),
        "empty subject": issuer.token(sub=""),
        "long subject": issuer.token(sub="x" * 300),
        "odd subject": issuer.token(sub="a\nb"),
        "no audience": issuer.token(aud=None),
        "other audience": issuer.token(aud="other"),
        "too many audiences": issuer.token(aud=[AUDIENCE, *map(str, range(20))]),
        "odd audience": issuer.token(aud=[AUDIENCE, "a\0b"]),
        "other issuer": issuer.token(iss=issuer.url + "/"),
        "odd expiry": issuer.token(exp="soon"),
        "endless": issuer.token(exp=float("inf")),
        "another's key of that id": issuer.token(stranger),
        "unknown key": issuer.token(headers={"kid": "other"}),
        "critical header": issuer.token(headers={"crit": ["x"], "x": 1}),
        "own key": issuer.token(new_key("x"), headers={"jwk": stranger.published()}),
        "another type": issuer.token(headers={"typ": "logout+jwt"}),
        "logout": issuer.token(events={"http://schemas.openid.net/event/backchannel-logout": {}}),
        "algorithm of the key's kind": issuer.token(new_key("one", "RS256")),
        "none": unsigned(good, {"alg": "none", "kid": "one"}),
        "None": unsigned(good, {"alg": "None", "kid": "one"}),
        "public key as secret": signed_with_secret(good, {"alg": "HS256", "kid": "one"}, public),
        "changed": f"{head}.{body[:-2]}AA.{signature}",
        "cut": f"{head}.{body}.{signature[:-4]}",
        "no signature": f"{head}.{body}.",
        "no JSON": f"{head}.e30x.{signature}",
        "a list": f"{head}.W10.{signature}",
        "dots": "a.b.c",
        "large": issuer.token(pad="x" * 20_000),
    }
    for name, token in bad.items():
        assert await status(anonymous, token) == (401, "TOKEN_INVALID"), name
    assert authority.entered == []
    assert await status(anonymous, good) == (200, "")


async def test_an_algorithm_that_the_tenant_did_not_choose_is_refused(
    anonymous: httpx.AsyncClient, authority: WireAuthority, issuer: OidcIssuer
) -> None:
    authority.issuer.algorithms[:] = ["RS256"]
    assert await status(anonymous, issuer.token()) == (401, "TOKEN_INVALID")
    # Nor was the issuer bothered.
    assert not issuer.asked


async def test_a_new_key_is_found_and_unknown_ones_do_not_flood_the_issuer(
    issuer: OidcIssuer, anonymous: httpx.AsyncClient
) -> None:
    assert await status(anonymous, issuer.token()) == (200, "")
    for number in range(30):
        stranger = new_key(f"stranger-{number}")
        assert (await status(anonymous, issuer.token(stranger)))[0] == 401
    assert issuer.asked["/keys"] == 1


async def test_keys_rotate() -> None:
    now = 0.0
    async with oidc_issuer() as issuer:
        keys = KeySets(lambda url: _document(issuer, url), lambda: now)
        assert await keys.key(issuer.url, "one") is not None
        issuer.keys = [new_key("two")]
        # A key that is named and not known is asked for, after the pause between two fetches.
        assert await keys.key(issuer.url, "two") is None
        now = 11.0
        assert await keys.key(issuer.url, "two") is not None
        # The old one is gone with it.
        assert await keys.key(issuer.url, "one") is None
        assert issuer.asked["/keys"] == 2
        now = 700.0
        issuer.keys = []
        assert await keys.key(issuer.url, "two") is None


async def test_an_issuer_that_is_away_is_no_refusal() -> None:
    now = 0.0
    async with oidc_issuer() as issuer:
        keys = KeySets(lambda url: _document(issuer, url), lambda: now)
        issuer.answers[CONFIGURATION] = b"{}"
        for _ in range(3):
            with pytest.raises(KeysUnavailable):
                await keys.key(issuer.url, "one")
        assert issuer.asked[CONFIGURATION] == 1
        del issuer.answers[CONFIGURATION]
        now = 11.0
        assert await keys.key(issuer.url, "one") is not None
        issuer.answers[CONFIGURATION] = b"not JSON"
        now = 500.0
        # What is known goes on for a while, an unknown key does not make it fail.
        assert await keys.key(issuer.url, "other") is None
        assert await keys.key(issuer.url, "one") is not None
        now = 650.0
        with pytest.raises(KeysUnavailable):
            await keys.key(issuer.url, "one")


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"not JSON",
        b'{"issuer": "https://other.example", "jwks_uri": "https://other.example/keys"}',
        b'{"jwks_uri": "http://127.0.0.1/"}',
    ],
)
async def test_an_issuers_odd_documents_are_not_believed(
    anonymous: httpx.AsyncClient, issuer: OidcIssuer, document: bytes
) -> None:
    issuer.answers[CONFIGURATION] = document
    assert await status(anonymous, issuer.token()) == (503, "ISSUER_UNAVAILABLE")


@pytest.mark.parametrize("keys", [b'{"keys": 7}', b'{"keys": {}}', b"{}"])
async def test_odd_key_sets_are_not_believed(
    anonymous: httpx.AsyncClient, issuer: OidcIssuer, keys: bytes
) -> None:
    issuer.answers["/keys"] = keys
    assert (await status(anonymous, issuer.token()))[0] in (401, 503)


async def test_symmetric_keys_of_a_key_set_are_no_keys(
    anonymous: httpx.AsyncClient, authority: WireAuthority, issuer: OidcIssuer
) -> None:
    authority.issuer.algorithms[:] = ["HS256"]
    secret = b"0123456789abcdef0123456789abcdef"
    encoded = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    issuer.answers["/keys"] = json.dumps(
        {"keys": [{"kty": "oct", "k": encoded, "kid": "s", "alg": "HS256"}]}
    ).encode()
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "kim", "exp": int(time.time()) + 60}
    token = jwt.encode(claims, secret, algorithm="HS256", headers={"kid": "s"})
    assert await status(anonymous, token) == (401, "TOKEN_INVALID")


async def _document(issuer: OidcIssuer, url: str) -> bytes:
    path = url.removeprefix(issuer.url)
    issuer.asked[path] += 1
    document = issuer.document(path)
    assert document is not None
    return document
