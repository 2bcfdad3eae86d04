"""Writes the ends of audit logs down where the database cannot reach them.

Invariant: what was anchored stays anchored: files are only added to, and reach the disk before the next
look.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from herma.common.errors import HermaError
from herma.common.logs import logger
from herma.session_authority.domain.audit import Anchor, anchor_line, anchor_of_line
from herma.session_authority.store.audit import AuditLog

# A transaction that began before the last look may have ended after it.
_OVERLAP = timedelta(minutes=1)
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)

_log = logger(__name__)


class Anchors:
    """Anchors of one replica: `<folder>/<name>.jsonl`, an anchor a line.

    Args:
        folder: Best on other storage than the database's; None anchors nothing.
        name: Of this replica, so that no two write one file.
    """

    def __init__(
        self,
        log: AuditLog,
        folder: Path | None,
        name: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._log = log
        self._folder = folder
        self._name = name
        self._clock = clock
        self._since = _BEGINNING
        self._written: dict[UUID, int] = {}

    async def run(self, every: float) -> None:
        """Anchors now and then, for good."""
        while True:
            try:
                if self._folder is not None:
                    await asyncio.to_thread(self._folder.mkdir, 0o700, parents=True, exist_ok=True)
                await self.anchor()
            except (HermaError, OSError) as error:
                _log.error("audit logs were not anchored", error=str(error))
            await asyncio.sleep(every)

    async def anchor(self) -> int:
        """Writes down the ends that moved since the last time; how many.

        Raises:
            Unavailable: when the database is away.
            OSError: when nothing can be written.
        """
        if self._folder is None:
            return 0
        now = self._clock()
        moved = [
            head
            async for head in self._log.heads_since(self._since)
            if self._written.get(head.tenant_id) != head.seq
        ]
        if moved:
            await asyncio.to_thread(self._append, self._folder, moved, now)
        self._written.update((head.tenant_id, head.seq) for head in moved)
        self._since = now - _OVERLAP
        return len(moved)

    async def of_tenant(self, tenant_id: UUID) -> Sequence[Anchor]:
        """All anchors of a tenant, of all replicas that share the folder."""
        if self._folder is None:
            return ()
        return await asyncio.to_thread(_in_folder, self._folder, tenant_id)

    def _append(self, folder: Path, anchors: Sequence[Anchor], at: datetime) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{self._name}.jsonl"
        is_new = not path.exists()
        with path.open("ab") as file:
            # What was cut off by a crash must not join the next line.
            if file.tell() and not _ends_with_newline(path):
                file.write(b"\n")
            file.write("".join(anchor_line(anchor, at) + "\n" for anchor in anchors).encode())
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _in_folder(folder: Path, tenant_id: UUID) -> Sequence[Anchor]:
    return [anchor for file in sorted(folder.glob("*.jsonl")) for anchor in read_anchors(file, tenant_id)]


def read_anchors(path: Path, tenant_id: UUID) -> Iterator[Anchor]:
    """The anchors of a tenant in a file; lines that a crash cut off are passed over."""
    wanted = str(tenant_id)
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if wanted not in line:
                continue
            try:
                yield anchor_of_line(line)
            except ValueError:
                _log.warning("an anchor cannot be read", file=path.name)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
