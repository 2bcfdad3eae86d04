"""`read_file` and `write_file`: files of the session's workspace."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from herma.agent_runner.domain.ledger import CallResult
from herma.agent_runner.domain.tool import Effect, Workspace
from herma.agent_runner.tools.text import readable

MAX_READ_BYTES = 100_000


class ReadFileArguments(BaseModel):
    """Arguments of `read_file`."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1, max_length=4096, description="Path relative to the workspace.")
    offset: int = Field(0, ge=0, le=1 << 53, description="First byte to read.")
    limit: int = Field(MAX_READ_BYTES, ge=1, le=MAX_READ_BYTES, description="Bytes to read at most.")


class WriteFileArguments(BaseModel):
    """Arguments of `write_file`."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1, max_length=4096, description="Path relative to the workspace.")
    content: str = Field(max_length=4_000_000, description="The whole new content.")


class ReadFile:
    """Reads a file."""

    name = "read_file"
    description = "Read a file of the workspace."
    arguments: type[BaseModel] = ReadFileArguments
    effect = Effect.READ

    async def run(
        self, call_id: str, arguments: Any, workspace: Workspace, instance: str, attach: bool
    ) -> CallResult:
        """See `Tool`."""
        found = await workspace.read_file(_path_bytes(arguments.path), arguments.offset, arguments.limit)
        text = readable(found.content)
        end = arguments.offset + len(found.content)
        if end < found.size:
            text += f"\n[{found.size - end} more bytes; read on from offset {end}]"
        return CallResult(text, details={"size": found.size})


class WriteFile:
    """Replaces a file; the same content twice is the same as once."""

    name = "write_file"
    description = "Write a file of the workspace, replacing what was there. Makes folders as needed."
    arguments: type[BaseModel] = WriteFileArguments
    effect = Effect.IDEMPOTENT

    async def run(
        self, call_id: str, arguments: Any, workspace: Workspace, instance: str, attach: bool
    ) -> CallResult:
        """See `Tool`."""
        content = arguments.content.encode("utf-8", "surrogateescape")
        created = await workspace.write_file(call_id, _path_bytes(arguments.path), content)
        verb = "Created" if created else "Replaced"
        return CallResult(
            f"{verb} {readable(_path_bytes(arguments.path))} ({len(content)} bytes).",
            details={"size": len(content), "created": created},
        )


def _path_bytes(path: str) -> bytes:
    return os.fsencode(path)
