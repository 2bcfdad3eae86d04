"""Settings of `herma up`, fixed for scripts, and of `herma bootstrap`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class UpSettings(BaseSettings):
    """What `herma up` needs to know."""

    model_config = SettingsConfigDict(env_prefix="HERMA_", frozen=True, extra="ignore")

    data_dir: Path = Field(Path(".herma"), description="Folder that holds everything.")
    http_port: int = Field(8700, ge=0, le=65535, description="Port of the HTTP API; 0 for any.")
    sandbox_backend: Literal["auto", "docker", "kubernetes", "local"] = Field(
        "auto", description="What makes sandboxes; `auto` takes Docker if an engine answers."
    )
    sandbox_image: str = Field("herma-base:dev", description="Image of the template `base`.")
    database_url: SecretStr | None = Field(
        None, description="PostgreSQL URL of an administrator, instead of the embedded server."
    )


class BootstrapSettings(BaseSettings):
    """What `herma bootstrap` needs to know."""

    model_config = SettingsConfigDict(env_prefix="HERMA_", frozen=True, extra="ignore")

    authority_address: str = Field(description="Where session-authority serves.")
    operator_key: SecretStr = Field(description="The operator's API key, which is to work from now on.")
    service_keys: dict[str, SecretStr] = Field(
        description="JSON object with the key of the pair `operator>session-authority`."
    )
