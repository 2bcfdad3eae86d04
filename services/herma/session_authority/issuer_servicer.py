"""The gRPC face of issuers: unpack, call, pack."""

from __future__ import annotations

from typing import Any

from herma.api.issuer.v1 import issuer_pb2, issuer_pb2_grpc
from herma.common.errors import InvalidArgument
from herma.common.ids import parse_id
from herma.session_authority import identity_wire
from herma.session_authority.domain.audit import Action
from herma.session_authority.domain.issuer import MAX_AUDIENCE, MAX_URL
from herma.session_authority.paging import id_of_token, page_size, to_token
from herma.session_authority.refusals import Refusals
from herma.session_authority.store.issuers import IssuerStore
from herma.session_authority.wire import caller_of

_MAX_AUDIENCES = 16


class IssuerServicer(issuer_pb2_grpc.IssuerServiceServicer):
    """Issuers."""

    def __init__(self, issuers: IssuerStore, refusals: Refusals) -> None:
        self._issuers = issuers
        self._refusals = refusals

    async def RegisterIssuer(  # noqa: N802  # the proto's name
        self, request: issuer_pb2.RegisterIssuerRequest, context: Any
    ) -> issuer_pb2.RegisterIssuerResponse:
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.ISSUER_REGISTERED, ""):
            made = await self._issuers.register(caller, identity_wire.terms_of(request.issuer))
        return issuer_pb2.RegisterIssuerResponse(issuer=identity_wire.issuer_message(made))

    async def ListIssuers(  # noqa: N802
        self, request: issuer_pb2.ListIssuersRequest, context: Any
    ) -> issuer_pb2.ListIssuersResponse:
        size = page_size(request.page_size)
        after = id_of_token(request.page_token)
        found = await self._issuers.list(caller_of(request.caller), after, size + 1)
        page = found[:size]
        return issuer_pb2.ListIssuersResponse(
            issuers=[identity_wire.issuer_message(issuer) for issuer in page],
            next_page_token=to_token(str(page[-1].id)) if len(found) > size else "",
        )

    async def RemoveIssuer(  # noqa: N802
        self, request: issuer_pb2.RemoveIssuerRequest, context: Any
    ) -> issuer_pb2.RemoveIssuerResponse:
        caller = caller_of(request.caller)
        async with self._refusals.noted(caller, Action.ISSUER_REMOVED, request.issuer_id):
            await self._issuers.remove(caller, parse_id(request.issuer_id, "issuer_id"))
        return issuer_pb2.RemoveIssuerResponse()

    async def FindIssuer(  # noqa: N802
        self, request: issuer_pb2.FindIssuerRequest, context: Any
    ) -> issuer_pb2.FindIssuerResponse:
        audiences = list(request.audiences)
        if len(audiences) > _MAX_AUDIENCES or any(len(one) > MAX_AUDIENCE for one in audiences):
            raise InvalidArgument("too much audience", fields={"audiences": f"at most {_MAX_AUDIENCES}"})
        if len(request.issuer) > MAX_URL or "\0" in request.issuer + "".join(audiences):
            raise InvalidArgument("this is no issuer", fields={"issuer": "must be a URL"})
        tenant_id, issuer = await self._issuers.find(request.issuer, audiences)
        return issuer_pb2.FindIssuerResponse(
            tenant_id=str(tenant_id), issuer=identity_wire.issuer_message(issuer)
        )
