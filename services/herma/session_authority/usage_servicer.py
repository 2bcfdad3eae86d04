"""The gRPC face of usage: unpack, call, pack."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from herma.api.usage.v1 import usage_pb2, usage_pb2_grpc
from herma.common.errors import InvalidArgument
from herma.session_authority.domain.usage import Grouping, UsageQuestion, UsageSum
from herma.session_authority.paging import number_of_token, page_size, to_token
from herma.session_authority.store.usage import UsageStore
from herma.session_authority.wire import caller_of, usage_message


class UsageServicer(usage_pb2_grpc.UsageServiceServicer):
    """Usage."""

    def __init__(self, usage: UsageStore) -> None:
        self._usage = usage

    async def SumUsage(  # noqa: N802  # the proto's name
        self, request: usage_pb2.SumUsageRequest, context: Any
    ) -> usage_pb2.SumUsageResponse:
        size = page_size(request.page_size)
        offset = number_of_token(request.page_token)
        found = await self._usage.sums(caller_of(request.caller), _question(request), offset, size + 1)
        return usage_pb2.SumUsageResponse(
            sums=[_sum_message(one) for one in found[:size]],
            next_page_token=to_token(str(offset + size)) if len(found) > size else "",
        )


def _question(request: usage_pb2.SumUsageRequest) -> UsageQuestion:
    try:
        by = tuple(
            Grouping[usage_pb2.Grouping.Name(value).removeprefix("GROUPING_")] for value in request.by
        )
    except (KeyError, ValueError) as error:
        raise InvalidArgument("no such grouping", fields={"by": "is not known"}) from error
    return UsageQuestion(
        request.of_tenant,
        by,
        request.since.ToDatetime(UTC) if request.HasField("since") else None,
        request.until.ToDatetime(UTC) if request.HasField("until") else None,
    )


def _sum_message(one: UsageSum) -> usage_pb2.Sum:
    return usage_pb2.Sum(
        day=one.day.isoformat() if one.day else "",
        session_id=str(one.session_id or ""),
        profile=one.profile or "",
        principal_id=str(one.principal_id or ""),
        turns=one.turns,
        usage=usage_message(one.usage),
    )
