"""One session as the person at the terminal has it: say something, follow the turn, stop it."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from herma.cli.client import ApiClient, ApiError

_PAGE = 200
_INTERRUPT_TRIES = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn came out."""

    turn_id: str
    state: str
    exit_reason: str
    error: str
    text: str
    usage: Mapping[str, Any]


class Conversation:
    """Speaks in one session; makes it when the first thing is said.

    Args:
        session_id: Empty for a new session.
        profile: Of a new session; empty for the default one.
    """

    def __init__(self, client: ApiClient, session_id: str = "", profile: str = "") -> None:
        self._client = client
        self._profile = profile
        self.session_id = session_id
        # The turn that was followed last.
        self.turn_id = ""
        self._interrupt_wanted = threading.Event()
        self._following = False

    @classmethod
    def newest(cls, client: ApiClient) -> Conversation:
        """The newest session.

        Raises:
            ApiError: when there is none.
        """
        items = client.get("/v1/sessions?page_size=1")["items"]
        if not items:
            raise ApiError("there is no session to continue")
        return cls(client, items[0]["id"])

    def describe(self) -> dict[str, Any]:
        """The session.

        Raises:
            ApiError: when there is none of this id.
        """
        return self._client.get(f"/v1/sessions/{self.session_id}")

    def last_messages(self, count: int) -> list[dict[str, Any]]:
        """The newest entries of the transcript, oldest of them first."""
        found: deque[dict[str, Any]] = deque(maxlen=count)
        token = ""
        while True:
            page = self._client.get(
                f"/v1/sessions/{self.session_id}/messages?page_size={_PAGE}&page_token={token}"
            )
            found.extend(page["items"])
            token = page["next_page_token"]
            if not token:
                return list(found)

    def open_turn(self, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The turn that the newest messages belong to, if it has not ended."""
        if not messages:
            return None
        turn = self._client.get(f"/v1/turns/{messages[-1]['turn_id']}")
        return None if turn["ended_at"] else turn

    def say(
        self,
        content: str,
        take: Callable[[Mapping[str, Any]], None],
        lost: Callable[[], None] | None = None,
    ) -> Outcome:
        """Sends a message and hands over the turn's events until it ends.

        Raises:
            ApiError: for a refusal, or when the connection does not come back; the turn goes on then.
        """
        self._begin()
        try:
            if not self.session_id:
                body = {"profile": self._profile} if self._profile else {}
                self.session_id = self._client.post("/v1/sessions", body, uuid.uuid4().hex)["id"]
            admitted = self._client.post(
                f"/v1/sessions/{self.session_id}/messages", {"content": content}, uuid.uuid4().hex
            )
            return self._follow(admitted["turn_id"], admitted["cursor"], take, lost)
        finally:
            self._following = False

    def follow(
        self,
        turn: Mapping[str, Any],
        take: Callable[[Mapping[str, Any]], None],
        lost: Callable[[], None] | None = None,
    ) -> Outcome:
        """Joins a turn that runs already; as `say`."""
        self._begin()
        try:
            return self._follow(turn["id"], turn["seq"], take, lost)
        finally:
            self._following = False

    def interrupt(self) -> None:
        """Asks the turn that is followed to stop, as soon as it is known; returns at once."""
        if not self._interrupt_wanted.is_set():
            self._interrupt_wanted.set()
            if self.turn_id:
                self._send_interrupt()

    def stop(self) -> str:
        """Asks the session's running turn to stop; what became of it, in words.

        Raises:
            ApiError: for a refusal.
        """
        turn = self.open_turn(self.last_messages(1)) if self.session_id else None
        if turn is None:
            return "nothing is running"
        self._client.post(f"/v1/turns/{turn['id']}/interrupt", {})
        return f"turn {turn['id']} was asked to stop"

    def _begin(self) -> None:
        self.turn_id = ""
        self._interrupt_wanted.clear()
        self._following = True

    def _follow(
        self,
        turn_id: str,
        cursor: int,
        take: Callable[[Mapping[str, Any]], None],
        lost: Callable[[], None] | None,
    ) -> Outcome:
        self.turn_id = turn_id
        if self._interrupt_wanted.is_set():
            self._send_interrupt()
        text, end = "", {}
        for event in self._client.events(self.session_id, cursor, turn_id, lost):
            # A session's stream also tells of the turns before and after.
            if event.get("turn_id") != turn_id:
                continue
            if event["kind"] == "message.completed":
                text = event["content"]
            elif event["kind"] == "turn.ended":
                end = event
            take(event)
        return Outcome(
            turn_id,
            end.get("state", ""),
            end.get("exit_reason", ""),
            end.get("error", ""),
            text,
            end.get("usage", {}),
        )

    def _send_interrupt(self) -> None:
        """From a thread of its own: the person's screen goes on meanwhile."""
        threading.Thread(
            target=self._keep_asking, args=(self.turn_id,), daemon=True, name="interrupt"
        ).start()

    def _keep_asking(self, turn_id: str) -> None:
        for number in range(_INTERRUPT_TRIES):
            try:
                self._client.post(f"/v1/turns/{turn_id}/interrupt", {})
            except ApiError:
                # The gateway may be restarting; asking twice is harmless.
                time.sleep(min(2.0, 0.1 * 2**number))
                if self._following and self.turn_id == turn_id:
                    continue
            return
