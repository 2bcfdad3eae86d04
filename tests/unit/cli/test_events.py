"""The client's stream of events over a connection that is cut."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from herma.cli.client import ApiClient, ApiError

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class Gateway:
    """Serves each connection the next of some answers, the last one for ever."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        self.requests: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.requests.append(connection.recv(65536))
                connection.sendall(self._answers[min(len(self.requests), len(self._answers)) - 1])


@contextmanager
def gateway(*answers: bytes) -> Iterator[Gateway]:
    found = Gateway(*answers)
    try:
        yield found
    finally:
        found.socket.close()


def frame(seq: int, kind: str) -> bytes:
    return (
        f'id: {seq}\nevent: {kind}\ndata: {{"seq": {seq}, "kind": "{kind}", "turn_id": "t"}}\n\n'.encode()
    )


def test_it_goes_on_after_the_last_event_that_was_seen() -> None:
    lost: list[int] = []
    away = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with gateway(_HEAD + frame(4, "turn.started"), away, _HEAD + frame(5, "turn.ended")) as served:
        client = ApiClient(served.url, "key")
        kinds = [event["kind"] for event in client.events("s", 3, "t", lambda: lost.append(1))]
    assert kinds == ["turn.started", "turn.ended"]
    assert lost == [1]
    assert [b"after=3" in served.requests[0], b"after=4" in served.requests[2]] == [True, True]


def test_it_gives_up_in_time_and_does_not_spin() -> None:
    with gateway(_HEAD + b": herma\n\n") as served:
        began = time.monotonic()
        with pytest.raises(ApiError, match="did not come back within 2 s; the turn goes on"):
            list(ApiClient(served.url, "key", patience=2.0).events("s", 3, "t"))
    assert time.monotonic() - began < 20
    assert 2 <= len(served.requests) < 20


def test_nobody_there_is_an_error_too() -> None:
    with gateway(b"") as served:
        url = served.url
    with pytest.raises(ApiError, match="did not come back"):
        list(ApiClient(url, "key", patience=1.0).events("s", 3, "t"))


def test_a_refusal_is_not_tried_again() -> None:
    body = b'{"detail": "no such session", "reason": "SESSION_NOT_FOUND"}'
    refusal = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with gateway(refusal) as served, pytest.raises(ApiError, match="no such session"):
        list(ApiClient(served.url, "key").events("s", 3, "t"))
    assert len(served.requests) == 1


def test_an_event_that_is_none_is_an_error() -> None:
    for data in (b"data: {\n\n", b"data: 3\n\n"):
        with (
            gateway(_HEAD + b"event: x\n" + data) as served,
            pytest.raises(ApiError, match="cannot be read"),
        ):
            list(ApiClient(served.url, "key").events("s", 3, "t"))
