"""What `herma doctor` looks at: this machine's settings, and the platform that they lead to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from herma.local.settings import UpSettings
from herma.local.up_file import UpFile


@dataclass(frozen=True, slots=True)
class Scene:
    """One installation as it is found.

    Attributes:
        up: `up.json` of a platform that runs; None when none does here.
        stale: There is an `up.json`, but the process that wrote it is gone.
        remote: `HERMA_URL`, when the platform is elsewhere; else empty.
    """

    settings: UpSettings
    up: Mapping[str, Any] | None
    stale: bool
    remote: str
    environment: Mapping[str, str]

    @classmethod
    def of(cls, settings: UpSettings) -> Scene:
        """As it is now."""
        file = UpFile.of(settings.data_dir)
        up = file.read_live()
        url = os.environ.get("HERMA_URL", "").rstrip("/")
        return cls(
            settings=settings,
            up=up,
            stale=up is None and file.path.exists(),
            remote=url if up is None or url != up["http"] else "",
            environment=dict(os.environ),
        )

    @property
    def backend(self) -> str:
        """The sandbox backend in use, or the one that is asked for."""
        return str(self.up["backend"]) if self.up else self.settings.sandbox_backend

    @property
    def url(self) -> str:
        """Of the HTTP API; empty when nothing is up."""
        return self.remote or (str(self.up["http"]) if self.up else "")

    @property
    def key(self) -> str:
        """An API key; empty when there is none."""
        found = self.environment.get("HERMA_API_KEY", "")
        if found or self.remote:
            return found
        try:
            return (self.settings.data_dir / "admin.key").read_text().strip()
        except OSError:
            return ""

    @property
    def services(self) -> list[Mapping[str, Any]]:
        """What `up.json` lists."""
        return list(self.up["services"]) if self.up else []

    def database_url(self) -> str:
        """URL of an administrator of the database; empty when it cannot be known or is not up."""
        if self.settings.database_url is not None:
            return self.settings.database_url.get_secret_value()
        address = next((s["address"] for s in self.services if s["name"] == "postgres"), "")
        if not address:
            return ""
        try:
            secrets = json.loads((self.settings.data_dir / "secrets.json").read_text())
            password = secrets["database"]["superuser"]
        except (OSError, ValueError, KeyError):
            return ""
        return f"postgresql://postgres:{password}@{address}/postgres"


def database_place(url: str) -> str:
    """Where a database is, without who connects."""
    parts = urlsplit(url)
    return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
