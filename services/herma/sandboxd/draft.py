"""New content of a file, beside it until it is whole."""

from __future__ import annotations

import hashlib
import os
import secrets


class ContentRefused(Exception):
    """The content is not what was announced."""


class Draft:
    """A temporary file in the folder of the file that it will replace.

    Args:
        folder: Descriptor of the folder; stays the caller's.
        name: Of the file to replace.
        mode: Permission bits of the new file.
        created: Whether there was no such file.

    Raises:
        OSError: when it cannot be made.
    """

    def __init__(self, folder: int, name: bytes, mode: int, *, created: bool) -> None:
        self.created = created
        self.size = 0
        self._folder = folder
        self._name = name
        self._mode = mode
        self._digest = hashlib.sha256()
        self._temporary: bytes | None = b".herma-" + secrets.token_hex(8).encode()
        self._descriptor = os.open(
            self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder
        )

    def write(self, chunk: bytes) -> None:
        """Appends.

        Raises:
            OSError: when it cannot be written.
        """
        self.size += len(chunk)
        self._digest.update(chunk)
        view = memoryview(chunk)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def commit(self, size: int, sha256: bytes) -> None:
        """Puts it in the file's place.

        Raises:
            ContentRefused: when size or hash are others.
            OSError: when it cannot be put there.
        """
        if self.size != size or self._digest.digest() != sha256:
            raise ContentRefused("the content is not what was announced")
        assert self._temporary is not None
        os.fchmod(self._descriptor, self._mode)
        os.fsync(self._descriptor)
        os.replace(self._temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._temporary = None

    def discard(self) -> None:
        """Closes it; removes it unless it was committed."""
        os.close(self._descriptor)
        if self._temporary is not None:
            try:
                os.unlink(self._temporary, dir_fd=self._folder)
            except OSError:  # a command removed it
                pass
