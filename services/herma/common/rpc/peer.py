"""A service as its callers see it: every call has a deadline, proof of identity and the trace."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any

import grpc

from herma.common import telemetry
from herma.common.errors import Unavailable
from herma.common.rpc.identity import SERVICE_KEY, ServiceIdentity
from herma.common.rpc.server import MAX_MESSAGE_BYTES
from herma.common.rpc.status import from_rpc_error
from herma.common.turn_token import TURN_TOKEN_KEY


class Peer:
    """A channel to all replicas of one service.

    Args:
        name: The service called.
        address: `host:port`, several joined by commas (spread round robin), or `unix:/path`.
        identity: Of the calling service.
    """

    def __init__(self, name: str, address: str, identity: ServiceIdentity) -> None:
        self.name = name
        self._identity = identity
        self.channel = grpc.aio.insecure_channel(
            _target(address),
            options=(
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                ("grpc.lb_policy_name", "round_robin"),
                ("grpc.initial_reconnect_backoff_ms", 50),
                ("grpc.min_reconnect_backoff_ms", 50),
                ("grpc.max_reconnect_backoff_ms", 500),
                ("grpc.keepalive_time_ms", 10_000),
                ("grpc.keepalive_timeout_ms", 5_000),
                ("grpc.use_local_subchannel_pool", 1),
            ),
        )

    async def call(
        self,
        method: Any,
        request: Any,
        *,
        timeout: float,
        turn_token: str = "",
        retry: bool = False,
    ) -> Any:
        """One unary answer.

        Args:
            method: A method of a generated stub on `channel`.
            request: The request, or for client streaming an async iterable of them.
            timeout: Seconds until `DeadlineExceeded`.
            turn_token: The turn that the call acts for.
            retry: The call may be repeated: while the peer is away, it is, until the timeout.

        Raises:
            HermaError: what the peer raised, or `Unavailable` and its like for the transport.
        """
        deadline = time.monotonic() + timeout
        backoff = 0.02
        while True:
            left = deadline - time.monotonic()
            try:
                return await method(
                    request,
                    timeout=max(left, 0.001),
                    metadata=self._metadata(method, turn_token),
                    wait_for_ready=True,
                )
            except grpc.aio.AioRpcError as failure:
                error = from_rpc_error(failure)
                pause = backoff * (0.5 + random.random())  # noqa: S311  # jitter
                again = retry and isinstance(error, Unavailable)
                if not again or time.monotonic() + pause >= deadline:
                    raise error from failure
                await asyncio.sleep(pause)
                backoff = min(backoff * 2, 0.5)

    async def stream(
        self, method: Any, request: Any, *, timeout: float, turn_token: str = ""
    ) -> AsyncIterator[Any]:
        """The answers of a streaming method; leaving the loop cancels the call.

        Raises:
            HermaError: as `call`.
        """
        call = method(
            request,
            timeout=timeout,
            metadata=self._metadata(method, turn_token),
            wait_for_ready=True,
        )
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as failure:
            raise from_rpc_error(failure) from failure
        finally:
            call.cancel()

    async def close(self) -> None:
        """Closes the channel."""
        await self.channel.close(None)

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _metadata(self, method: Any, turn_token: str) -> Sequence[tuple[str, str]]:
        name = method._method.decode()  # the stub has no public name
        metadata = [(SERVICE_KEY, self._identity.prove(self.name, name))]
        if turn_token:
            metadata.append((TURN_TOKEN_KEY, turn_token))
        if trace := telemetry.traceparent():
            metadata.append(("traceparent", trace))
        return metadata


def _target(address: str) -> str:
    if address.startswith("unix:"):
        return address
    hosts = [part.strip() for part in address.split(",")]
    if all(part.replace(".", "").replace(":", "").isdigit() for part in hosts):
        return "ipv4:" + ",".join(hosts)
    if len(hosts) > 1:
        raise ValueError("several addresses must be IPv4 addresses; else use one DNS name")
    return "dns:///" + hosts[0]
