"""A person at a terminal: a program in a pseudo-terminal, what it shows, and keys to press."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence

from tests.support.waiting import eventually

_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_=>78]")


class Terminal:
    """A program in a terminal of its own; use it as a context manager.

    It answers the one question that line editors ask: where the cursor is.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], columns: int = 100, rows: int = 30
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={"TERM": "xterm-256color", **environment},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # type: ignore[arg-type,return-value]
        )
        os.close(slave)
        self._lock = threading.Lock()
        self._output = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True, name="terminal")
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def raw(self) -> bytes:
        """Everything that was written to the terminal."""
        with self._lock:
            return bytes(self._output)

    @property
    def text(self) -> str:
        """The same without escape sequences and carriage returns."""
        return _ESCAPES.sub(b"", self.raw).replace(b"\r", b"").decode("utf-8", "replace")

    def mark(self) -> int:
        """Now, for `shows`."""
        return len(self.text)

    async def shows(self, wanted: str, after: int = 0, timeout: float = 60.0) -> str:
        """The text after a mark, up to and with `wanted`, once that is there.

        Raises:
            AssertionError: when it is not in time, with what was shown.
        """

        def look() -> str | None:
            text = self.text[after:]
            before, found, _ = text.partition(wanted)
            return before + found if found else None

        try:
            return await eventually(look, f"the terminal shows {wanted!r}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; shown:\n{self.text[-4000:]}") from None

    def type(self, text: str) -> None:
        """Presses keys; `\\r` is Enter."""
        os.write(self._master, text.encode())

    def control(self, letter: str) -> None:
        """Ctrl and a letter."""
        os.write(self._master, bytes([ord(letter.upper()) - 64]))

    async def left(self, timeout: float = 30.0) -> int:
        """The exit code, once the program has ended."""
        await eventually(
            lambda: self.process.poll() is not None,
            f"the program ends; shown:\n{self.text[-3000:]}",
            timeout,
        )
        return int(self.process.returncode)

    def close(self) -> None:
        """Ends the program if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self._reader.join(10)
        os.close(self._master)

    def _read(self) -> None:
        answered = 0
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return  # the other side is closed
            if not data:
                return
            with self._lock:
                self._output += data
                asked = self._output.count(b"\x1b[6n")
            for _ in range(asked - answered):
                os.write(self._master, b"\x1b[1;1R")
            answered = asked
