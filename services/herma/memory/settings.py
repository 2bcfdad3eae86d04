"""Settings of memory."""

from __future__ import annotations

from pydantic import Field

from herma.common.settings import DatabaseSettings, ServiceSettings


class MemorySettings(ServiceSettings, DatabaseSettings):
    """What memory needs to know."""

    turn_token_public_key: str = Field(
        description="PEM of the Ed25519 public key that turn tokens are checked with."
    )
