"""Settings: environment variables `HERMA_…`, read once, frozen, per service.

Each service subclasses `ServiceSettings` with the fields of its own; `app.py` alone reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, FilePath, IPvAnyNetwork, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class TelemetrySettings(BaseSettings):
    """Where traces and metrics go."""

    model_config = SettingsConfigDict(env_prefix="HERMA_", frozen=True, extra="ignore")

    otlp_endpoint: str = Field(
        "", description="gRPC endpoint of an OpenTelemetry collector; empty sends nothing."
    )
    spans_file: Path | None = Field(
        None, description="File to which finished spans are appended as JSON lines."
    )
    log_level: str = Field("INFO", description="Least severe level that is logged.")


class ServiceSettings(TelemetrySettings):
    """What every gRPC service needs to know."""

    listen: str = Field("127.0.0.1:0", description="Address to serve gRPC on: host:port, or unix:/path.")
    service_keys: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="JSON object from `caller>callee` to the key that proves the caller's identity; "
        "each service is given only the pairs that it is part of.",
    )
    reflection: bool = Field(False, description="Serve gRPC reflection.")
    drain_seconds: float = Field(
        20.0, ge=0, description="How long a stopping service may take to hand over its work."
    )


class EgressSettings(BaseSettings):
    """Where a service may go for a tenant."""

    model_config = SettingsConfigDict(env_prefix="HERMA_", frozen=True, extra="ignore")

    egress_allowed_networks: Annotated[tuple[IPvAnyNetwork, ...], NoDecode] = Field(
        (),
        description="Networks, joined by commas, that URLs of tenants may lead to although they are not"
        " public; http, without TLS, is allowed there too.",
    )
    egress_denied_networks: Annotated[tuple[IPvAnyNetwork, ...], NoDecode] = Field(
        (),
        description="Networks, joined by commas, that URLs of tenants may not lead to, whatever else is"
        " said: name your own that have public addresses (hosts, pods, NAT64).",
    )
    egress_ports: str = Field(
        "80,443,1024-65535",
        description="Ports, and ranges of them, joined by commas, that URLs of tenants may name.",
    )
    egress_ca_file: FilePath | None = Field(
        None, description="PEM file of authorities to trust for URLs of tenants, besides the machine's."
    )

    @field_validator("egress_allowed_networks", "egress_denied_networks", mode="before")
    @classmethod
    def _networks(cls, text: object) -> object:
        if not isinstance(text, str):
            return text
        return [part.strip() for part in text.split(",") if part.strip()]

    @field_validator("egress_ports")
    @classmethod
    def _ports(cls, text: str) -> str:
        _port_ranges(text)
        return text

    @property
    def egress_port_ranges(self) -> tuple[range, ...]:
        """The ports that may be named."""
        return _port_ranges(self.egress_ports)


def _port_ranges(text: str) -> tuple[range, ...]:
    ranges = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = int(first), int(last if dash else first)
        if not 1 <= low <= high <= 65535:
            raise ValueError(f"{part.strip()!r} is no port, nor a range of them")
        ranges.append(range(low, high + 1))
    return tuple(ranges)


class DatabaseSettings(BaseSettings):
    """A service's own database role."""

    model_config = SettingsConfigDict(env_prefix="HERMA_", frozen=True, extra="ignore")

    database_url: SecretStr = Field(
        description="PostgreSQL URL of the service's own role; may go through a pooler in "
        "transaction mode."
    )
    database_direct_url: SecretStr | None = Field(
        None, description="URL that reaches PostgreSQL itself, for LISTEN; the other one if unset."
    )
    database_pool_size: int = Field(10, ge=1, le=200, description="Connections at most.")

    @property
    def listen_url(self) -> str:
        """The URL for LISTEN."""
        return (self.database_direct_url or self.database_url).get_secret_value()
