"""Settings of session-authority."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from herma.common.settings import DatabaseSettings, ServiceSettings


class AuthoritySettings(ServiceSettings, DatabaseSettings):
    """What session-authority needs to know."""

    turn_token_key: SecretStr = Field(
        description="PEM of the Ed25519 private key that signs turn tokens."
    )
    audit_anchor_dir: Path | None = Field(
        None,
        description="Folder, best on other storage than the database's, to which the ends of audit"
        " logs are written; nothing is if unset.",
    )
    audit_anchor_seconds: float = Field(
        60.0, ge=1, description="How often ends of audit logs are written."
    )
    lease_ttl_seconds: float = Field(
        30.0, ge=1, le=3600, description="How long a lease lives without renewal."
    )
    sweep_seconds: float = Field(1.0, gt=0, description="How often lapsed leases are looked for.")
