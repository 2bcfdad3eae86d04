"""Settings of agent-runner."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from herma.common.settings import ServiceSettings


class RunnerSettings(ServiceSettings):
    """What agent-runner needs to know."""

    authority_address: str = Field(description="Where session-authority serves.")
    sandbox_address: str = Field(description="Where tool-sandbox serves.")
    memory_address: str = Field(description="Where memory serves.")
    runner_slots: int = Field(16, ge=1, le=1000, description="Turns at once.")
    model_base_url: str = Field(
        "", description="Base URL (with /v1) of an OpenAI-compatible model server."
    )
    model: str = Field("", description="Name of the model.")
    model_api_key: SecretStr = Field(SecretStr(""), description="Key for the model server.")
    openai_api_key: SecretStr = Field(
        SecretStr(""), validation_alias="OPENAI_API_KEY", description="Used if no HERMA_MODEL_… is set."
    )
    model_tools: Literal["auto", "none"] = Field(
        "auto",
        description="`none` offers the model no tools: for a model that cannot call any.",
    )
    model_idle_seconds: float = Field(
        90.0, gt=0, description="Silence of the model after which the call is tried again."
    )
