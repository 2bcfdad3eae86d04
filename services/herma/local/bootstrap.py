"""The first tenant and the operator's key: what a fresh database needs before anybody can call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from herma.api.identity.v1 import identity_pb2, identity_pb2_grpc
from herma.common.rpc import Peer, ServiceIdentity, ServiceKeys


async def bootstrap(
    authority_address: str, service_keys: Mapping[str, str], operator_key: str, timeout: float = 30
) -> str:
    """Makes sure that the tenant `default` exists and that the operator's key works; safe to repeat.

    Args:
        authority_address: Of session-authority, which may still be starting.
        service_keys: The pair keys of `operator`.
        operator_key: Text of the API key.
        timeout: Seconds.

    Returns:
        The id of the tenant `default`.

    Raises:
        HermaError: when session-authority refuses, or does not answer in time.
    """
    identity = ServiceIdentity("operator", ServiceKeys(service_keys))
    async with Peer("session-authority", authority_address, identity) as peer:
        stub: Any = identity_pb2_grpc.IdentityServiceStub(peer.channel)
        answer = await peer.call(
            stub.Bootstrap,
            identity_pb2.BootstrapRequest(operator_key=operator_key),
            timeout=timeout,
            retry=True,
        )
    return str(answer.tenant_id)
