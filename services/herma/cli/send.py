"""Sends one message and shows the turn as it runs."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from herma.cli.client import ApiClient


@dataclass(frozen=True, slots=True)
class Reply:
    """How a turn came out."""

    session_id: str
    turn_id: str
    state: str
    exit_reason: str
    error: str
    text: str


def send(
    client: ApiClient,
    message: str,
    session_id: str = "",
    watch: Callable[[dict[str, Any]], None] | None = None,
    profile: str = "",
) -> Reply:
    """Sends a message, in a new session unless one is named, and waits for the turn's end.

    Args:
        profile: Of a new session; empty for the tenant's `default`.
    """
    if not session_id:
        session_id = client.post("/v1/sessions", {"profile": profile}, uuid.uuid4().hex)["id"]
    admitted = client.post(f"/v1/sessions/{session_id}/messages", {"content": message}, uuid.uuid4().hex)
    text, end = "", {}
    for event in client.events(session_id, admitted["cursor"], admitted["turn_id"]):
        if watch is not None:
            watch(event)
        if event["kind"] == "message.completed":
            text = event["content"]
        elif event["kind"] == "turn.ended":
            end = event
    return Reply(
        session_id,
        admitted["turn_id"],
        end.get("state", ""),
        end.get("exit_reason", ""),
        end.get("error", ""),
        text,
    )
