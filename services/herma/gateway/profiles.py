"""Profiles of session-authority as the gateway sees them."""

from __future__ import annotations

from typing import Any

from herma.api.ledger.v1 import ledger_pb2
from herma.api.profile.v1 import profile_pb2, profile_pb2_grpc
from herma.common.rpc import Peer

_TIMEOUT = 20.0


class Profiles:
    """Reads and applies profiles."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub: Any = profile_pb2_grpc.ProfileServiceStub(peer.channel)

    async def list(
        self, caller: ledger_pb2.Caller, page_size: int, page_token: str
    ) -> profile_pb2.ListProfilesResponse:
        """Lists profiles."""
        found: profile_pb2.ListProfilesResponse = await self._peer.call(
            self._stub.ListProfiles,
            profile_pb2.ListProfilesRequest(caller=caller, page_size=page_size, page_token=page_token),
            timeout=_TIMEOUT,
            retry=True,
        )
        return found

    async def get(self, caller: ledger_pb2.Caller, name: str, version: int = 0) -> profile_pb2.Profile:
        """Reads a profile."""
        response: profile_pb2.GetProfileResponse = await self._peer.call(
            self._stub.GetProfile,
            profile_pb2.GetProfileRequest(caller=caller, name=name, version=version),
            timeout=_TIMEOUT,
            retry=True,
        )
        return response.profile

    async def apply(
        self, caller: ledger_pb2.Caller, name: str, spec: str, expected_version: int
    ) -> profile_pb2.ApplyProfileResponse:
        """Makes a profile or a new version of it; a repeat changes nothing."""
        response: profile_pb2.ApplyProfileResponse = await self._peer.call(
            self._stub.ApplyProfile,
            profile_pb2.ApplyProfileRequest(
                caller=caller, name=name, spec=spec.encode(), expected_version=expected_version
            ),
            timeout=_TIMEOUT,
            retry=True,
        )
        return response
