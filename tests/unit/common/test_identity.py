"""Who calls: service identity and turn tokens."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from herma.common.errors import Unauthenticated
from herma.common.rpc import ServiceIdentity, ServiceKeys
from herma.common.turn_token import TurnIdentity, TurnTokenSigner, TurnTokenVerifier

_METHOD = "/herma.api.lease.v1.LeaseService/Append"


def _pem() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _identity(expires_at: int = 2_000) -> TurnIdentity:
    return TurnIdentity(uuid4(), uuid4(), uuid4(), uuid4(), uuid4(), "trusted", 7, expires_at)


def test_a_service_proves_itself_for_one_method_and_one_callee() -> None:
    keys = ServiceKeys({"runner>authority": "k1", "runner>sandbox": "k2", "gateway>authority": "k3"})
    runner = ServiceIdentity("runner", keys, now=lambda: 1000.0)
    authority = ServiceIdentity("authority", keys, now=lambda: 1050.0)
    proof = runner.prove("authority", _METHOD)
    assert authority.check(proof, _METHOD) == "runner"
    with pytest.raises(Unauthenticated):
        authority.check(proof, "/herma.api.lease.v1.LeaseService/Renew")
    with pytest.raises(Unauthenticated):
        ServiceIdentity("sandbox", keys, now=lambda: 1000.0).check(proof, _METHOD)
    with pytest.raises(Unauthenticated):
        authority.check(proof.replace("runner", "gateway"), _METHOD)


@pytest.mark.parametrize(
    "proof", ["", "v1", "v1.runner", "v2.runner.1.x", "v1.runner.x.y", "v1.a.1000.é"]
)
def test_malformed_proofs_are_refused(proof: str) -> None:
    keys = ServiceKeys({"runner>authority": "k1"})
    with pytest.raises(Unauthenticated):
        ServiceIdentity("authority", keys, now=lambda: 1000.0).check(proof, _METHOD)


def test_old_proofs_are_refused() -> None:
    keys = ServiceKeys({"runner>authority": "k1"})
    proof = ServiceIdentity("runner", keys, now=lambda: 1000.0).prove("authority", _METHOD)
    with pytest.raises(Unauthenticated, match="clocks"):
        ServiceIdentity("authority", keys, now=lambda: 1200.0).check(proof, _METHOD)


def test_a_turn_token_carries_its_identity_until_it_expires() -> None:
    signer = TurnTokenSigner(_pem())
    now = [1000.0]
    verifier = TurnTokenVerifier(signer.public_key_pem, now=lambda: now[0])
    identity = _identity()
    token = signer.sign(identity)
    assert verifier.verify(token) == identity
    now[0] = 2000.0
    with pytest.raises(Unauthenticated):
        verifier.verify(token)


def test_forged_turn_tokens_are_refused() -> None:
    signer = TurnTokenSigner(_pem())
    verifier = TurnTokenVerifier(signer.public_key_pem, now=lambda: 1000.0)
    token = signer.sign(_identity())
    other = TurnTokenSigner(_pem()).sign(_identity())
    header, payload, signature = token.split(".")
    _, other_payload, _ = signer.sign(replace(_identity(), epoch=9)).split(".")
    unsigned = jwt.encode({"aud": "herma-turn", "exp": 2000}, None, algorithm="none")
    public_as_secret = ".".join((header, payload, ""))
    for forged in (
        "",
        "x",
        other,
        ".".join((header, other_payload, signature)),
        unsigned,
        public_as_secret,
    ):
        with pytest.raises(Unauthenticated):
            verifier.verify(forged)


def test_the_verifier_remembers_a_bounded_number() -> None:
    signer = TurnTokenSigner(_pem())
    verifier = TurnTokenVerifier(signer.public_key_pem, now=lambda: 1000.0, remembered=3)
    for _ in range(10):
        verifier.verify(signer.sign(_identity()))
    assert len(verifier._seen) == 3
