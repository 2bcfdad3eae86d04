"""Every RPC of the protos, tried by who may not call it, and for whom it is not: nothing done."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.protobuf.message import Message

from herma.api.ledger.v1 import ledger_pb2
from herma.common.rpc.identity import SERVICE_KEY, ServiceIdentity, ServiceKeys
from herma.common.turn_token import TURN_TOKEN_KEY
from tests.e2e.isolation.methods import Method, methods
from tests.e2e.isolation.world import MARK, World, turn_token

# Who serves what; the broker and sandboxd are behind sockets that only their one caller reaches.
SERVED_BY = {
    "audit": "session-authority",
    "identity": "session-authority",
    "issuer": "session-authority",
    "lease": "session-authority",
    "memory": "memory",
    "principal": "session-authority",
    "profile": "session-authority",
    "sandbox": "tool-sandbox",
    "session": "session-authority",
}
BEHIND_SOCKETS = {"broker", "sandboxd"}
ALL = [method for method in methods() if method.service not in BEHIND_SOCKETS]
# Of a runner, before it has a turn.
WITHOUT_TURN = {"Claim", "WatchSignals"}
# Answers the same whoever asks: it is how an entrance finds out who that is.
WITHOUT_CALLER = {"Authenticate", "Enter", "FindIssuer", "Bootstrap"}


class Caller:
    """A service that calls others, with whatever proof it has."""

    def __init__(self, world: World) -> None:
        self._secrets = json.loads((world.platform.data / "secrets.json").read_text())
        self._addresses = {one["name"]: one["address"] for one in world.platform.up_file["services"]}

    def proof(self, method: Method, service: str) -> str:
        """The identity of a service that shares a key with the callee."""
        callee = SERVED_BY[method.service]
        pair = f"{service}>{callee}"
        keys = ServiceKeys({pair: self._secrets["service_keys"][pair]})
        return ServiceIdentity(service, keys).prove(callee, method.path)

    def callers_of(self, method: Method) -> list[str]:
        """Services that share a key with who serves the method."""
        callee = SERVED_BY[method.service]
        pairs = (pair.split(">") for pair in self._secrets["service_keys"])
        return [caller for caller, called in pairs if called == callee]

    async def call(
        self,
        method: Method,
        request: Message,
        proof: str,
        token: str = "",
        timeout: float | None = 20,
    ) -> tuple[str, str]:
        """The status code's name, and the answer or what was said instead."""
        metadata = [(SERVICE_KEY, proof)] if proof else []
        if token:
            metadata.append((TURN_TOKEN_KEY, token))
        described = method.descriptor
        async with grpc.aio.insecure_channel(self._addresses[SERVED_BY[method.service]]) as channel:
            kind = ("stream" if described.client_streaming else "unary") + (
                "_stream" if described.server_streaming else "_unary"
            )
            stub: Any = getattr(channel, kind)(
                method.path,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=bytes,
            )

            async def parts() -> AsyncIterator[Message]:
                yield request

            sent = parts() if described.client_streaming else request
            call = stub(sent, metadata=metadata, timeout=timeout)
            try:
                if described.server_streaming:
                    async with asyncio.timeout(3):
                        received = b"".join([part async for part in call])
                else:
                    received = await call
                return "OK", received.decode("latin-1")
            except TimeoutError:
                return "OK", "still streaming"
            except grpc.aio.AioRpcError as error:
                return error.code().name, error.details() or ""
            finally:
                call.cancel()


@pytest.fixture(scope="module")
def caller(lived: World) -> Caller:
    return Caller(lived)


def test_every_service_is_known_here() -> None:
    assert {method.service for method in methods()} == set(SERVED_BY) | BEHIND_SOCKETS


@pytest.mark.parametrize("method", ALL, ids=str)
async def test_only_services_that_may_are_served(lived: World, caller: Caller, method: Method) -> None:
    request = method.request(lived.known)
    forged = caller.proof(method, caller.callers_of(method)[0])[:-4] + "0000"
    for proof in ("", "v1.gateway.0.00", forged):
        assert (await caller.call(method, request, proof))[0] == "UNAUTHENTICATED"
    other = next(one for one in ALL if one.path != method.path and one.service == method.service)
    for service in caller.callers_of(method):
        # A proof is of one method.
        elsewhere = await caller.call(method, request, caller.proof(other, service))
        assert elsewhere[0] == "UNAUTHENTICATED"
    if SERVED_BY[method.service] == "session-authority":
        answers = [
            await caller.call(method, request, caller.proof(method, service), timeout=None)
            for service in caller.callers_of(method)
        ]
        assert "PERMISSION_DENIED" in [code for code, _ in answers], answers
        # And to who may call: never without a deadline.
        assert {code for code, _ in answers} == {"PERMISSION_DENIED", "INVALID_ARGUMENT"}, answers


def caller_of(world: World, somebody: Any) -> ledger_pb2.Caller:
    me = somebody.http.get("/v1/whoami").json()
    return ledger_pb2.Caller(
        tenant_id=me["tenant"]["id"], principal_id=me["principal"]["id"], key_id=me["key"]["id"]
    )


@pytest.mark.parametrize("method", [one for one in ALL if one.has_caller], ids=str)
async def test_another_tenant_cannot_tell_what_is_as_from_what_never_was(
    lived: World, caller: Caller, method: Method
) -> None:
    # What it makes under A's names is its own, so it has made nothing before.
    b = caller_of(lived, lived.new_tenant()[0])
    before = lived.rows()
    answers = []
    for known in (lived.known, lived.known.strangers()):
        request = method.request(known, b)
        code, said = await caller.call(method, request, caller.proof(method, "gateway"))
        assert MARK not in said
        answers.append(code)
    assert answers[0] == answers[1]
    assert lived.rows() == before


@pytest.mark.parametrize("method", [one for one in ALL if one.has_caller], ids=str)
async def test_a_caller_of_two_halves_is_nobody(lived: World, caller: Caller, method: Method) -> None:
    a, b = caller_of(lived, lived.a), caller_of(lived, lived.b)
    before = lived.rows()
    for mixed in (
        ledger_pb2.Caller(tenant_id=a.tenant_id, principal_id=b.principal_id, key_id=a.key_id),
        ledger_pb2.Caller(tenant_id=b.tenant_id, principal_id=a.principal_id, key_id=a.key_id),
        ledger_pb2.Caller(tenant_id=a.tenant_id, principal_id=str(uuid.uuid4())),
    ):
        request = method.request(lived.known, mixed)
        code, said = await caller.call(method, request, caller.proof(method, "gateway"))
        if method.service != "audit":
            assert MARK not in said, code
    assert lived.rows() == before


@pytest.mark.parametrize(
    "method",
    [
        one
        for one in ALL
        if not one.has_caller and one.descriptor.name not in WITHOUT_TURN | WITHOUT_CALLER
    ],
    ids=str,
)
async def test_a_turn_token_that_is_not_good_now_is_good_for_nothing(
    lived: World, caller: Caller, method: Method
) -> None:
    other = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    before = lived.rows()
    proof = caller.proof(method, "agent-runner")
    request = method.request(lived.known)
    for name, token in {
        "missing": "",
        "forged": turn_token(lived, pem=other),
        "expired": turn_token(lived, seconds=-60),
        "no token": "a.b.c",
    }.items():
        if "turn_token" in method.descriptor.input_type.fields_by_name:
            request.turn_token = token  # type: ignore[attr-defined]  # by its descriptor
            code, _ = await caller.call(method, request, proof)
            assert code == "OK", name  # dropped without a word
        else:
            code, _ = await caller.call(method, request, proof, token)
            assert code == "UNAUTHENTICATED", name
    if method.service == "lease":
        # A good token of a turn that is over: fenced off.
        code, said = await caller.call(method, request, proof, turn_token(lived))
        assert code in ("FAILED_PRECONDITION", "INVALID_ARGUMENT", "OK"), said
    assert lived.rows() == before


@pytest.mark.parametrize("method", [one for one in ALL if one.has_caller], ids=str)
async def test_a_gets_an_answer(lived: World, caller: Caller, method: Method) -> None:
    """What answers A nothing would be silent to others for no reason."""
    somebody = lived.operator if "Tenant" in method.descriptor.name else lived.a
    if method.descriptor.name.startswith(("Delete", "Remove", "Revoke", "Register")):
        return  # tried over HTTP, once
    request = method.request(lived.known, caller_of(lived, somebody))
    code, said = await caller.call(method, request, caller.proof(method, "gateway"))
    assert code == "OK", f"{method} answers A {code} {said}: cover it"
