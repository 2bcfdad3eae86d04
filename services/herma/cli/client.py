"""The HTTP API as the command line sees it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from herma.common.errors import HermaError
from herma.local.up_file import UpFile

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
    if not key and not key_file.exists():
        raise ApiError("there is no key: set HERMA_API_KEY")
    return url or (up or {})["http"], key or key_file.read_text().strip()


def segment(text: str) -> str:
    """Text as one segment of a path, whatever is in it."""
    return quote(text, safe="")


class ApiClient:
    """Talks to one platform."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(30, read=None),
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
            page = self.get(f"{path}?page_size={size}&page_token={token}")
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

    def events(self, session_id: str, after: int, turn_id: str) -> Iterator[dict[str, Any]]:
        """A turn's events to its end; reconnects when the connection is cut."""
        while True:
            try:
                with self._http.stream(
                    "GET",
                    f"/v1/sessions/{session_id}/events",
                    params={"after": after, "turn": turn_id},
                ) as response:
                    if response.status_code != 200:
                        response.read()
                        self._json(response)
                    name = ""
                    for line in response.iter_lines():
                        if line.startswith("event: "):
                            name = line[7:]
                        elif line.startswith("data: "):
                            data = json.loads(line[6:])
                            after = data.get("seq", after)
                            yield {"kind": name, **data}
                            if name == "turn.ended" and data["turn_id"] == turn_id:
                                return
            except httpx.TransportError:
                continue

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise ApiError(f"{self._http.base_url} does not answer: {error}") from error

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
