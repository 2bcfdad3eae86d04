"""Settings of tool-sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from herma.common.settings import DatabaseSettings, ServiceSettings


class SandboxSettings(ServiceSettings, DatabaseSettings):
    """What tool-sandbox needs to know."""

    turn_token_public_key: str = Field(
        description="PEM of the Ed25519 public key that turn tokens are checked with."
    )
    broker_socket: Path = Field(description="Unix socket of the broker.")
    sandbox_backend: Literal["docker", "local"] = Field("docker", description="What makes sandboxes.")
    sandbox_socket_dir: Path = Field(description="Folder that holds one socket folder per sandbox.")
    sandbox_idle_seconds: float = Field(
        900.0, ge=1, description="Idle time after which a sandbox is removed; its files stay."
    )
    sandbox_sweep_seconds: float = Field(
        30.0, gt=0, description="How often idle sandboxes and orphans are looked for."
    )
    sandbox_remove_on_stop: bool = Field(
        False,
        description="Remove the sandboxes that no call is using when this service stops; their files "
        "stay. Only where one tool-sandbox serves.",
    )
