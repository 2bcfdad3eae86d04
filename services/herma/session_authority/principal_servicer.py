"""The gRPC face of principals and grants: unpack, call, pack."""

from __future__ import annotations

from typing import Any

from herma.api.principal.v1 import principal_pb2, principal_pb2_grpc
from herma.common.ids import parse_id
from herma.session_authority import identity_wire
from herma.session_authority.bells import Belfry
from herma.session_authority.domain import admission
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.principal import MAX_NAME, check_service_name
from herma.session_authority.domain.rights import parse_right, parse_role
from herma.session_authority.identity_wire import optional_id
from herma.session_authority.paging import id_of_token, page_size, to_token
from herma.session_authority.refusals import Refusals
from herma.session_authority.store.grants import GrantStore
from herma.session_authority.store.principals import PrincipalStore
from herma.session_authority.wire import caller_of


class PrincipalServicer(principal_pb2_grpc.PrincipalServiceServicer):
    """Principals and grants."""

    def __init__(
        self, principals: PrincipalStore, grants: GrantStore, refusals: Refusals, belfry: Belfry
    ) -> None:
        self._principals = principals
        self._grants = grants
        self._refusals = refusals
        self._belfry = belfry

    async def CreatePrincipal(  # noqa: N802  # the proto's name
        self, request: principal_pb2.CreatePrincipalRequest, context: Any
    ) -> principal_pb2.CreatePrincipalResponse:
        check_service_name(request.subject)
        admission.check_line(request.name, "name", MAX_NAME)
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.PRINCIPAL_CREATED, request.subject):
            made = await self._principals.create_service(
                caller, request.subject, request.name, parse_role(request.role)
            )
        return principal_pb2.CreatePrincipalResponse(principal=identity_wire.principal_message(made))

    async def ListPrincipals(  # noqa: N802
        self, request: principal_pb2.ListPrincipalsRequest, context: Any
    ) -> principal_pb2.ListPrincipalsResponse:
        size = page_size(request.page_size)
        after = id_of_token(request.page_token)
        found = await self._principals.list(caller_of(request.caller), after, size + 1)
        page = found[:size]
        return principal_pb2.ListPrincipalsResponse(
            principals=[identity_wire.principal_message(principal) for principal in page],
            next_page_token=to_token(str(page[-1].id)) if len(found) > size else "",
        )

    async def GetPrincipal(  # noqa: N802
        self, request: principal_pb2.GetPrincipalRequest, context: Any
    ) -> principal_pb2.GetPrincipalResponse:
        found = await self._principals.get(
            caller_of(request.caller), parse_id(request.principal_id, "principal_id")
        )
        return principal_pb2.GetPrincipalResponse(principal=identity_wire.principal_message(found))

    async def UpdatePrincipal(  # noqa: N802
        self, request: principal_pb2.UpdatePrincipalRequest, context: Any
    ) -> principal_pb2.UpdatePrincipalResponse:
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.PRINCIPAL_CHANGED, request.principal_id):
            changed = await self._principals.change(
                caller,
                parse_id(request.principal_id, "principal_id"),
                identity_wire.change_of(request),
            )
        if changed.disabled_at is not None:
            self._belfry.ring_signals()
        return principal_pb2.UpdatePrincipalResponse(principal=identity_wire.principal_message(changed))

    async def ListGrants(  # noqa: N802
        self, request: principal_pb2.ListGrantsRequest, context: Any
    ) -> principal_pb2.ListGrantsResponse:
        size = page_size(request.page_size)
        admission.check_line(request.profile, "profile", admission.MAX_KEY)
        found = await self._grants.list(
            caller_of(request.caller),
            optional_id(request.principal_id, "principal_id"),
            request.profile,
            id_of_token(request.page_token),
            size + 1,
        )
        page = found[:size]
        return principal_pb2.ListGrantsResponse(
            grants=[identity_wire.grant_message(grant) for grant in page],
            next_page_token=to_token(str(page[-1].id)) if len(found) > size else "",
        )

    async def AddGrant(  # noqa: N802
        self, request: principal_pb2.AddGrantRequest, context: Any
    ) -> principal_pb2.AddGrantResponse:
        admission.check_line(request.profile, "profile", admission.MAX_KEY)
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.GRANT_ADDED, request.principal_id):
            grant = await self._grants.add(
                caller,
                parse_id(request.principal_id, "principal_id"),
                request.profile,
                parse_right(request.right),
            )
        return principal_pb2.AddGrantResponse(grant=identity_wire.grant_message(grant))

    async def RemoveGrant(  # noqa: N802
        self, request: principal_pb2.RemoveGrantRequest, context: Any
    ) -> principal_pb2.RemoveGrantResponse:
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.GRANT_REMOVED, request.grant_id):
            await self._grants.remove(caller, parse_id(request.grant_id, "grant_id"))
        return principal_pb2.RemoveGrantResponse()
