"""The loop of a conversation: read, run the turn, show it, read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from herma.cli.chat.calls import Call, CallLog, expanded
from herma.cli.chat.conversation import Conversation, Outcome
from herma.cli.chat.interrupt_key import InterruptKey
from herma.cli.chat.prompt_line import PromptLine
from herma.cli.chat.safe_markdown import SafeMarkdown
from herma.cli.chat.screen import TurnScreen
from herma.cli.client import ApiError
from herma.cli.terminal_text import clean, one_line

_SHOWN_OF_BEFORE = 6
_EXPANDED_LINES = 10_000


class Repl:
    """A conversation at a terminal.

    Args:
        another: Makes the conversation of `/new`.
    """

    def __init__(
        self,
        console: Console,
        conversation: Conversation,
        another: Callable[[], Conversation],
        prompt: PromptLine,
        verbose: bool,
    ) -> None:
        self._console = console
        self._conversation = conversation
        self._another = another
        self._prompt = prompt
        self._verbose = verbose
        self._calls = CallLog()

    def run(self) -> None:
        """Talks until the person leaves.

        Raises:
            ApiError: when the session that is to be resumed is not there.
        """
        try:
            self._greet()
            while (said := self._prompt.read()) is not None:
                said = said.strip()
                if _is_command(said):
                    if not self._command(said):
                        break
                elif said:
                    self._guarded(lambda said=said: self._say(said))  # type: ignore[misc]  # binds now
        except KeyboardInterrupt:
            self._note("left; what runs goes on until it stops")
        if self._conversation.session_id:
            self._note(f"go on with: herma chat --session {self._conversation.session_id}")

    def _greet(self) -> None:
        if not self._conversation.session_id:
            self._note("a new session; /help lists the commands, Ctrl-D leaves")
            return
        session = self._conversation.describe()
        title = f" · {one_line(session['title'], 60)}" if session["title"] else ""
        self._note(f"session {session['id']} · profile {one_line(session['profile'], 40)}{title}")
        messages = self._conversation.last_messages(_SHOWN_OF_BEFORE)
        self._recall(messages)
        turn = self._conversation.open_turn(messages)
        if turn is not None:
            self._note(f"turn {turn['id']} is {turn['state']}; following it")
            self._guarded(
                lambda: self._watch(lambda take, lost: self._conversation.follow(turn, take, lost))
            )

    def _recall(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            content = clean(message["content"])
            if message["role"] == "user":
                self._console.print(Text("> " + content, style="bold"))
            elif message["role"] == "assistant" and content.strip():
                # As it was streamed: rendered where the terminal is one.
                if self._console.is_terminal and not self._console.is_dumb_terminal:
                    self._console.print(SafeMarkdown(content))
                else:
                    self._console.print(Text(content))
            elif message["role"] == "tool":
                self._console.print(
                    Text(one_line(f"· {message['content']}", self._console.width), style="dim")
                )

    def _say(self, content: str) -> None:
        self._watch(lambda take, lost: self._conversation.say(content, take, lost))

    def _watch(
        self, run: Callable[[Callable[[Mapping[str, Any]], None], Callable[[], None]], Outcome]
    ) -> None:
        """Shows a turn until it ends; Ctrl-C asks it to stop."""
        screen = TurnScreen(self._console, self._calls, self._verbose)

        def pressed() -> None:
            screen.interrupting()
            self._conversation.interrupt()

        with screen, InterruptKey(pressed):
            outcome = run(screen.take, screen.lost)
        if outcome.state != "completed":
            reason = one_line(f"{outcome.exit_reason}. {outcome.error}", 400)
            self._console.print(Text(f"the turn ended as {reason}", style="yellow"))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Runs a turn; what the platform refuses is said, and the conversation goes on."""
        try:
            work()
        except ApiError as error:
            self._console.print(Text(f"herma: {clean(error.message)}", style="red"))

    def _command(self, said: str) -> bool:
        """Does a slash command; whether the conversation goes on."""
        name, _, rest = said.partition(" ")
        if name == "/exit":
            return False
        known: dict[str, Callable[[str], None]] = {
            "/help": self._help,
            "/new": self._new,
            "/stop": self._stop,
            "/session": self._session,
            "/expand": self._expand,
        }
        work = known.get(name)
        if work is None:
            self._note(f"there is no command {one_line(name, 40)}; /help lists them")
        else:
            self._guarded(lambda: work(rest.strip()))
        return True

    def _help(self, _rest: str) -> None:
        for name, text in COMMANDS.items():
            self._note(f"{name:9} {text}")
        self._note("Alt-Enter begins a new line; Ctrl-C stops a turn, twice leaves; Ctrl-D leaves")

    def _new(self, _rest: str) -> None:
        self._conversation = self._another()
        self._calls = CallLog()
        self._note("a new session")

    def _stop(self, _rest: str) -> None:
        self._note(self._conversation.stop())

    def _session(self, _rest: str) -> None:
        if not self._conversation.session_id:
            self._note("a new session; it is made when you say something")
            return
        session = self._conversation.describe()
        self._note(f"session {session['id']} · profile {one_line(session['profile'], 40)}")
        if self._conversation.turn_id:
            self._note(f"last turn {self._conversation.turn_id}")

    def _expand(self, rest: str) -> None:
        calls = list(self._calls.all.values())
        if not calls:
            self._note("no call was made yet")
            return
        number = int(rest) if rest.isascii() and rest.isdigit() and len(rest) < 9 else 1
        if not 1 <= number <= len(calls):
            self._note(f"there are {len(calls)} calls; /expand 1 is the newest")
            return
        self._show(calls[-number])

    def _show(self, call: Call) -> None:
        self._console.print(Text(call.summary(self._console.width), style="bold"))
        for line in clean(call.arguments).splitlines():
            self._console.print(Text("  " + line, style="dim"))
        for line in expanded(call, _EXPANDED_LINES):
            self._console.print(Text(line))

    def _note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))


COMMANDS = {
    "/help": "this list",
    "/new": "go on in a new session",
    "/stop": "stop what still runs in this session",
    "/session": "which session this is",
    "/expand": "the whole output of the newest call; /expand 2 of the one before",
    "/exit": "leave",
}


def _is_command(said: str) -> bool:
    """A slash and a word; a path is something to say."""
    name = said.partition(" ")[0]
    return name.startswith("/") and "/" not in name[1:] and name[1:].isalpha()
