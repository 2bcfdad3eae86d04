"""The line where a person types: history, several lines, paste."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

# Older entries are dropped at the start beyond this.
_MOST_HISTORY = 1024 * 1024


class PromptLine:
    """Reads what a person says.

    Args:
        history: File of what was said before, made with mode 0600; None to keep it in memory.
        commands: Slash commands to complete.
    """

    def __init__(self, history: Path | None, commands: list[str]) -> None:
        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        self._session: PromptSession[str] = PromptSession(
            "> ",
            history=_history(history),
            completer=WordCompleter(commands, sentence=True),
            complete_while_typing=False,
            key_bindings=keys,
            prompt_continuation="  ",
            reserve_space_for_menu=4,
            enable_open_in_editor=False,
        )

    def read(self) -> str | None:
        """The next thing said; None at Ctrl-C or Ctrl-D."""
        try:
            return self._session.prompt()
        except (EOFError, KeyboardInterrupt):
            return None


def history_file(data_folder: Path) -> Path:
    """Where what was said is kept: in the data folder, or without one in the user's state folder."""
    if data_folder.is_dir():
        return data_folder / "chat_history"
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "herma" / "chat_history"


def _history(path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            os.fchmod(file.fileno(), 0o600)
            size = file.seek(0, os.SEEK_END)
            if size > _MOST_HISTORY:
                file.seek(size - _MOST_HISTORY // 2)
                # Entries are set apart by a line that begins with `#`.
                kept = file.read().partition(b"\n#")[2]
                file.seek(0)
                file.write(b"\n#" + kept)
                file.truncate()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
