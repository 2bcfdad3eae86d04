"""Files of the workspace.

Invariant: no path leads outside, whatever links a command has made or swaps meanwhile.  Paths are
walked by descriptors, one component at a time, without following links; links are resolved here and
may point anywhere inside.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from herma.sandboxd.draft import Draft

_MAX_LINKS = 32
_CHUNK = 256 * 1024


class PathRefused(Exception):
    """The path leads outside, or names something that is no regular file."""


class FileMissing(Exception):
    """There is no such file."""


class Workspace:
    """The folder that a session's files live in."""

    def __init__(self, top: bytes) -> None:
        self.top = os.path.realpath(top)

    @contextmanager
    def parent(self, path: bytes, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
        """Descriptor of the folder that holds `path`, and the last component, links resolved.

        The last component itself may still be a link if it was swapped in after the look: open it
        with O_NOFOLLOW.

        Raises:
            PathRefused: when it leads outside or is no usable name.
            FileMissing: when a folder is missing and `make` is off.
        """
        parts = self._split(path)
        stack = [self._open_top()]
        links = 0
        try:
            while True:
                if not parts:
                    raise PathRefused("the path names no file")
                name = parts.pop(0)
                if name == b"..":
                    if len(stack) == 1:
                        raise PathRefused("the path leads outside the workspace")
                    os.close(stack.pop())
                    continue
                target = _link_target(name, stack[-1])
                if target is not None:
                    links += 1
                    if links > _MAX_LINKS:
                        raise PathRefused("the path has too many links")
                    if target.startswith(b"/"):
                        while len(stack) > 1:
                            os.close(stack.pop())
                    parts = self._split(target) + parts
                elif not parts:
                    yield stack[-1], name
                    return
                else:
                    stack.append(_open_folder(name, stack[-1], make))
        finally:
            for descriptor in stack:
                os.close(descriptor)

    @contextmanager
    def open_for_reading(self, path: bytes) -> Iterator[tuple[int, os.stat_result]]:
        """A regular file.

        Raises:
            PathRefused, FileMissing: as `parent`.
        """
        with self.parent(path) as (folder, name):
            try:
                descriptor = os.open(
                    name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
                )
            except FileNotFoundError as error:
                raise FileMissing("there is no such file") from error
            except OSError as error:
                raise PathRefused(f"the file cannot be read: {os.strerror(error.errno or 0)}") from error
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise PathRefused("this is no regular file")
            yield descriptor, found
        finally:
            os.close(descriptor)

    def create_exclusively(self, path: bytes) -> int:
        """Descriptor of a new file; OSError when there is one."""
        try:
            with self.parent(path, make=True) as (folder, name):
                return os.open(
                    name,
                    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                    0o644,
                    dir_fd=folder,
                )
        except (PathRefused, FileMissing) as error:
            raise OSError(errno.EPERM, str(error)) from error

    @contextmanager
    def replacement(self, path: bytes, mode: int) -> Iterator[Draft]:
        """A draft beside the file that takes its place, atomically, when committed.

        Folders are made as needed.  A draft that is not committed leaves nothing behind.  A name that
        is a hardlink is replaced, never written through.

        Args:
            path: Of the file.
            mode: Permission bits; 0 keeps those of a file that exists, else 0644.

        Raises:
            PathRefused: as `parent`, or when there is a folder of that name.
        """
        with self.parent(path, make=True) as (folder, name):
            old = _stat(name, folder)
            if old is not None and stat.S_ISDIR(old.st_mode):
                raise PathRefused("there is a folder of that name")
            kept = stat.S_IMODE(old.st_mode) if old and stat.S_ISREG(old.st_mode) else 0o644
            draft = Draft(folder, name, (mode or kept) & 0o777, created=old is None)
            try:
                yield draft
            finally:
                draft.discard()

    def folder_path(self, path: bytes) -> bytes:
        """Absolute path of a folder inside, for a command to start in.

        Raises:
            PathRefused, FileMissing: as `parent`.
        """
        if not [part for part in path.split(b"/") if part not in (b"", b".")]:
            os.close(self._open_top())
            return self.top
        with self.parent(path + b"/.herma-probe") as (folder, _):
            return os.readlink(f"/proc/self/fd/{folder}".encode())

    def mend(self) -> None:
        """Makes the workspace usable again for its owner, after a command that removed or closed it."""
        try:
            os.mkdir(self.top, 0o700)
        except FileExistsError:
            mode = os.lstat(self.top).st_mode
            if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                os.chmod(self.top, stat.S_IMODE(mode) | 0o700)

    def _open_top(self) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self.mend()
            return os.open(self.top, flags)
        except OSError as error:
            raise PathRefused(f"the workspace is not usable: {os.strerror(error.errno or 0)}") from error

    def _split(self, path: bytes) -> list[bytes]:
        if b"\0" in path or len(path) > 4096:
            raise PathRefused("the path is not usable")
        if path.startswith(b"/"):
            if path != self.top and not path.startswith(self.top + b"/"):
                raise PathRefused("the path leads outside the workspace")
            path = path[len(self.top) :]
        return [part for part in path.split(b"/") if part not in (b"", b".")]


def read_chunks(descriptor: int, offset: int, limit: int) -> Iterator[bytes]:
    """The content of a file from `offset`, at most `limit` bytes (0 for all)."""
    left = limit or None
    while left is None or left > 0:
        chunk = os.pread(descriptor, _CHUNK if left is None else min(_CHUNK, left), offset)
        if not chunk:
            return
        yield chunk
        offset += len(chunk)
        if left is not None:
            left -= len(chunk)


def _link_target(name: bytes, folder: int) -> bytes | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _open_folder(name: bytes, folder: int, make: bool) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError as error:
        if not make:
            raise FileMissing("there is no such folder") from error
        try:
            os.mkdir(name, 0o755, dir_fd=folder)
        except FileExistsError:
            pass
        except OSError as failure:
            raise PathRefused(f"a folder cannot be made: {os.strerror(failure.errno or 0)}") from failure
        return _open_folder(name, folder, make=False)
    except OSError as error:
        raise PathRefused("a part of the path is no folder") from error


def _stat(name: bytes, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PathRefused(f"the name is not usable: {os.strerror(error.errno or 0)}") from error
