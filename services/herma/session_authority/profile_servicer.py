"""The gRPC face of profiles: unpack, call, pack."""

from __future__ import annotations

from typing import Any

from herma.api.profile.v1 import profile_pb2, profile_pb2_grpc
from herma.common.errors import InvalidArgument
from herma.session_authority import wire
from herma.session_authority.domain import admission
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.profile import check_profile_name, parse_spec
from herma.session_authority.paging import from_token, page_size, to_token
from herma.session_authority.refusals import Refusals
from herma.session_authority.store.profiles import ProfileStore


class ProfileServicer(profile_pb2_grpc.ProfileServiceServicer):
    """Profiles."""

    def __init__(self, profiles: ProfileStore, refusals: Refusals) -> None:
        self._profiles = profiles
        self._refusals = refusals

    async def ListProfiles(  # noqa: N802  # the proto's name
        self, request: profile_pb2.ListProfilesRequest, context: Any
    ) -> profile_pb2.ListProfilesResponse:
        size = page_size(request.page_size)
        after = from_token(request.page_token)
        admission.check_line(after, "page_token", admission.MAX_KEY)
        found = await self._profiles.list(wire.caller_of(request.caller), after, size + 1)
        page = found[:size]
        return profile_pb2.ListProfilesResponse(
            profiles=[wire.profile_message(profile) for profile in page],
            next_page_token=to_token(page[-1].name) if len(found) > size else "",
        )

    async def GetProfile(  # noqa: N802
        self, request: profile_pb2.GetProfileRequest, context: Any
    ) -> profile_pb2.GetProfileResponse:
        admission.check_line(request.name, "name", admission.MAX_KEY)
        if request.version < 0:
            raise InvalidArgument("no such version", fields={"version": "0 or more"})
        found = await self._profiles.get(wire.caller_of(request.caller), request.name, request.version)
        return profile_pb2.GetProfileResponse(profile=wire.profile_message(found))

    async def ApplyProfile(  # noqa: N802
        self, request: profile_pb2.ApplyProfileRequest, context: Any
    ) -> profile_pb2.ApplyProfileResponse:
        check_profile_name(request.name)
        if request.expected_version < 0:
            raise InvalidArgument("no such version", fields={"expected_version": "0 or more"})
        caller = wire.caller_of(request.caller)
        async with self._refusals.noted(caller, Action.PROFILE_APPLIED, request.name):
            profile, outcome = await self._profiles.apply(
                caller,
                request.name,
                parse_spec(request.spec),
                request.expected_version,
            )
        return profile_pb2.ApplyProfileResponse(
            profile=wire.profile_message(profile),
            outcome=profile_pb2.Outcome.Value(f"OUTCOME_{outcome.name}"),
        )
