"""What a sandbox is made of: the operator's choice, never a caller's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """Limits of one kind of sandbox."""

    image: str
    memory_bytes: int = 1024 * 1024 * 1024
    cpus: float = 1.0
    pids: int = 512
    tmp_bytes: int = 256 * 1024 * 1024
    user: int = 10001
