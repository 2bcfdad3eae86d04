"""`up.json`: what a running platform tells scripts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from herma.local.installation import write_private
from herma.local.processes import is_alive


@dataclass(frozen=True, slots=True)
class UpFile:
    """The file of one data folder."""

    path: Path

    @classmethod
    def of(cls, folder: Path) -> UpFile:
        """The file of a data folder."""
        return cls(folder / "up.json")

    def write(self, content: dict[str, Any]) -> None:
        """Replaces it atomically."""
        write_private(self.path, json.dumps(content, indent=1) + "\n")

    def remove(self) -> None:
        """The platform is down."""
        self.path.unlink(missing_ok=True)

    def read_live(self) -> dict[str, Any] | None:
        """Its content, if the platform that wrote it still runs."""
        try:
            content: dict[str, Any] = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return None
        return content if is_alive(content["pid"], content["started"]) else None
