"""Settings of gateway."""

from __future__ import annotations

from pydantic import Field

from herma.common.settings import EgressSettings, ServiceSettings


class GatewaySettings(ServiceSettings, EgressSettings):
    """What gateway needs to know."""

    http_listen: str = Field("127.0.0.1:8700", description="Address to serve HTTP on: host:port.")
    authority_address: str = Field(description="Where session-authority serves.")
