"""The HTTP API as the command line sees it."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from herma.common.errors import HermaError
from herma.local.up_file import UpFile

# How long a stream is tried again without a sign of life before that is an error.
PATIENCE = 60.0
# The gateway beats every 15 s: what says nothing for so long is dead, whatever the socket thinks.
_STREAM_SILENCE = 45.0
# How long a request that may be repeated is tried again while nobody listens.
_AGAIN_SECONDS = 5.0
# Of a list.
_PAGE = 200


class ApiError(HermaError):
    """The platform refused, or is not there."""

    reason = "API_ERROR"


def find_platform() -> tuple[str, str]:
    """URL and key: from `HERMA_URL` and `HERMA_API_KEY`, else from the data folder.

    Raises:
        ApiError: when there is none.
    """
    url, key = os.environ.get("HERMA_URL"), os.environ.get("HERMA_API_KEY")
    if url and key:
        return url.rstrip("/"), key
    folder = Path(os.environ.get("HERMA_DATA_DIR", ".herma"))
    up = UpFile.of(folder).read_live()
    if up is None and not url:
        raise ApiError("Herma is not up here: run `herma up`, or set HERMA_URL and HERMA_API_KEY")
    key_file = folder / "admin.key"
    # The operator's key of this folder is for the platform of this folder, and goes nowhere else.
    foreign = url and url.rstrip("/") != (up or {}).get("http")
    if not key and (foreign or not key_file.exists()):
        raise ApiError("there is no key: set HERMA_API_KEY")
    return (url or (up or {})["http"]).rstrip("/"), key or key_file.read_text().strip()


class _Away(Exception):
    """The platform answers, but cannot serve now."""


def segment(text: str) -> str:
    """Text as one segment of a path, whatever is in it."""
    return quote(text, safe="")


def quoted(text: str) -> str:
    """Text as one value of a query, whatever is in it."""
    return quote(text, safe="")


class _Silence:
    """How long nothing has come, and when to try again: 0.1 s, doubling to 2 s, with jitter."""

    def __init__(self, patience: float) -> None:
        self.tries = 0
        self._patience = patience
        self._since = time.monotonic()

    def broken(self) -> None:
        """Something came."""
        self.tries = 0
        self._since = time.monotonic()

    def pause(self) -> float | None:
        """Seconds until the next try; None when it is enough."""
        if not self.tries:
            # Quiet while connected is no failure: the time counts from the first cut.
            self._since = time.monotonic()
        elif time.monotonic() - self._since > self._patience:
            return None
        self.tries += 1
        most: float = min(2.0, 0.1 * 2 ** min(self.tries, 10))
        return most * (0.5 + random.random() / 2)  # noqa: S311  # jitter


class ApiClient:
    """Talks to one platform.

    Args:
        patience: Seconds that a cut stream is tried again without a sign of life.
    """

    def __init__(self, url: str, key: str, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(10, read=60),
        )

    def post(self, path: str, body: dict[str, Any], idempotency_key: str = "") -> dict[str, Any]:
        """Posts JSON.

        Raises:
            ApiError: for a refusal.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._json(self._send("POST", path, json=body, headers=headers))

    def get(self, path: str) -> dict[str, Any]:
        """Reads JSON.

        Raises:
            ApiError: for a refusal.
        """
        return self._json(self._send("GET", path))

    def put(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """Puts JSON.

        Raises:
            ApiError: for a refusal.
        """
        return self._json(self._send("PUT", path, json=body, headers=headers))

    def patch(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """Patches JSON.

        Raises:
            ApiError: for a refusal.
        """
        return self._json(self._send("PATCH", path, json=body, headers=headers))

    def delete(self, path: str) -> dict[str, Any]:
        """Deletes; what was answered, if anything.

        Raises:
            ApiError: for a refusal.
        """
        return self._json(self._send("DELETE", path))

    def pages(self, path: str, limit: int = 0) -> Iterator[dict[str, Any]]:
        """The items of a list, page after page; at most `limit`, 0 for all.

        Raises:
            ApiError: for a refusal.
        """
        size = min(limit, _PAGE) or _PAGE
        token, given = "", 0
        while True:
            mark = "&" if "?" in path else "?"
            page = self.get(f"{path}{mark}page_size={size}&page_token={token}")
            for item in page["items"]:
                yield item
                given += 1
                if given == limit:
                    return
            token = page["next_page_token"]
            if not token:
                return

    def history(self, session_id: str, last_seq: int) -> list[dict[str, Any]]:
        """A session's events up to a number; those that there are when it is deleted meanwhile."""
        found: list[dict[str, Any]] = []
        if not last_seq:
            return found
        with self._http.stream("GET", f"/v1/sessions/{session_id}/events") as response:
            if response.status_code != 200:
                response.read()
                self._json(response)
            for line in response.iter_lines():
                data = json.loads(line[6:]) if line.startswith("data: ") else {}
                # Streamed text has no number.
                if "seq" in data:
                    found.append(data)
                    if data["seq"] >= last_seq:
                        break
        return found

    def events(
        self,
        session_id: str,
        after: int,
        turn_id: str,
        lost: Callable[[], None] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """A turn's events to its end; reconnects when the connection is cut, and misses nothing.

        Args:
            lost: Called when the connection is cut, before the first try to get another.

        Raises:
            ApiError: for a refusal, or when nothing came for so long as the client has patience.
        """
        silence = _Silence(self._patience)
        while True:
            try:
                for kind, data in self._stream(session_id, after, turn_id, silence):
                    after = data.get("seq", after)
                    yield {"kind": kind, **data}
                    if kind == "turn.ended" and data["turn_id"] == turn_id:
                        return
                failure: Exception = ConnectionError("the stream ended early")
            except (httpx.TransportError, _Away) as error:
                failure = error
            if lost is not None and not silence.tries:
                lost()
            pause = silence.pause()
            if pause is None:
                raise ApiError(
                    f"the connection to {self._http.base_url} was lost and did not come back within "
                    f"{self._patience:.0f} s; the turn goes on without it",
                    reason="CONNECTION_LOST",
                ) from failure
            time.sleep(pause)

    def _stream(
        self, session_id: str, after: int, turn_id: str, silence: _Silence
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """One connection's events (WHATWG HTML, "Server-sent events")."""
        with self._http.stream(
            "GET",
            f"/v1/sessions/{session_id}/events",
            params={"after": after, "turn": turn_id},
            timeout=httpx.Timeout(10, read=_STREAM_SILENCE),
        ) as response:
            if response.status_code != 200:
                response.read()
                if response.status_code >= 500 or response.status_code == 429:
                    raise _Away(f"HTTP {response.status_code}")
                self._json(response)
            name = ""
            for line in response.iter_lines():
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    silence.broken()
                    yield name, _object(line[6:])
                elif line.startswith(": still"):
                    silence.broken()

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request; again for a few seconds if it may be repeated and nobody answers."""
        repeatable = "Idempotency-Key" in options.get("headers", ())
        until = time.monotonic() + (_AGAIN_SECONDS if repeatable else 0)
        while True:
            try:
                return self._http.request(method, path, **options)
            except httpx.TransportError as error:
                if time.monotonic() >= until or isinstance(error, httpx.ReadTimeout):
                    raise ApiError(
                        f"{self._http.base_url} does not answer: {error}", reason="NO_ANSWER"
                    ) from error
            time.sleep(0.2)

    def _json(self, response: httpx.Response) -> dict[str, Any]:
        try:
            body: dict[str, Any] = response.json()
        except ValueError:
            body = {}
        if response.status_code >= 400:
            details = "; ".join(f"{e['field']}: {e['detail']}" for e in body.get("errors", ()))
            text = body.get("detail", f"HTTP {response.status_code}")
            raise ApiError(f"{text} ({details})" if details else text, reason=body.get("reason"))
        return body


def _object(text: str) -> dict[str, Any]:
    """Raises: ApiError for what is no JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ApiError("the platform sent an event that cannot be read")
    return found
