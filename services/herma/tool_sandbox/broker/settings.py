"""Settings of the broker."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from herma.common.settings import ServiceSettings


class BrokerSettings(ServiceSettings):
    """What the broker needs to know."""

    broker_socket: Path = Field(description="Unix socket to serve on.")
    sandbox_backend: Literal["docker", "local"] = Field("docker", description="What makes sandboxes.")
    sandbox_image: str = Field("herma-base:dev", description="Image of the template `base`.")
    sandbox_socket_dir: Path = Field(description="Folder that holds one socket folder per sandbox.")
    sandbox_local_dir: Path | None = Field(
        None, description="Folder for the workspaces of the backend `local`."
    )
    sandbox_memory_bytes: int = Field(
        1024 * 1024 * 1024, ge=64 * 1024 * 1024, description="Memory of one sandbox."
    )
    sandbox_cpus: float = Field(1.0, gt=0, description="Processors of one sandbox.")
    sandbox_pids: int = Field(512, ge=16, description="Processes of one sandbox.")
    installation: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,40}$", description="Names this deployment on its engine."
    )
