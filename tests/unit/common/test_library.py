"""Errors, ids, redaction."""

from __future__ import annotations

import json
import logging
from uuid import UUID

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herma.common import errors
from herma.common.errors import HermaError, InvalidArgument, Kind
from herma.common.ids import UuidV7Factory, parse_id
from herma.common.logs import configure_logs, logger
from herma.common.problem import headers_of, problem, status_of
from herma.common.redaction import redact
from herma.common.rpc.status import from_rpc_error, to_status

_ALL = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, HermaError) and found is not HermaError
]


@pytest.mark.parametrize("cls", _ALL, ids=lambda cls: cls.__name__)
def test_an_error_survives_the_wire(cls: type[HermaError]) -> None:
    sent = cls("text for people", fields={"f": "what"}, metadata={"k": "v"}, retry_after=1.5)
    status = to_status(sent)
    failure = grpc.aio.AioRpcError(
        status.code,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(*status.trailing_metadata),
        status.details,
    )
    got = from_rpc_error(failure)
    assert type(got) is cls
    assert (got.message, got.reason, got.retry_after) == ("text for people", cls.reason, 1.5)
    assert (dict(got.fields), dict(got.metadata)) == ({"f": "what"}, {"k": "v"})
    assert 400 <= status_of(got) <= 599


def test_every_kind_has_a_status_and_a_problem() -> None:
    for kind in Kind:
        error = errors.error_for(kind, "", "text")
        body = problem(error)
        assert body["status"] == status_of(error)
        assert body["title"]
    assert headers_of(errors.ResourceExhausted(retry_after=0.2)) == {"Retry-After": "1"}


def test_ids_increase_also_when_the_clock_steps_back() -> None:
    times = iter([2_000_000_000, 1_000_000_000, 1_000_000_000, 3_000_000_000])
    factory = UuidV7Factory(now_ns=lambda: next(times))
    made = [factory() for _ in range(4)]
    assert made == sorted(made)
    assert len(set(made)) == 4
    assert all(value.version == 7 and value.variant == "specified in RFC 4122" for value in made)


@given(st.integers(0, 2**60), st.binary(min_size=8, max_size=8))
def test_ids_hold_their_millisecond(now: int, noise: bytes) -> None:
    value = UuidV7Factory(now_ns=lambda: now, random_bytes=lambda _size: noise)()
    assert value.int >> 80 == max(now // 1_000_000, 0) or now < 1_000_000
    assert value.version == 7


@pytest.mark.parametrize("text", ["", "x", "{" + str(UUID(int=5)) + "}", str(UUID(int=255)).upper()])
def test_only_canonical_ids_are_read(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_id(text, "id")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key herma_ab12cd34_" + "x" * 43, "x" * 43),
        ("OPENAI_API_KEY=sk-proj-abcdefghijklmnop", "sk-proj-abcdefghijklmnop"),
        ("postgresql://user:hunter22@host/db", "hunter22"),
        ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
        ('{"password": "correct horse"}', "correct"),
        ("token ghp_" + "a" * 36, "a" * 36),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----", "MIIB"),
    ],
)
def test_secrets_are_redacted(text: str, secret: str) -> None:
    assert secret not in redact(text)
    assert "[redacted]" in redact(text)


@pytest.mark.parametrize(
    "text", ["a plain sentence", "see http://host/path", "the token expired", "skip-this-one"]
)
def test_prose_is_not_redacted(text: str) -> None:
    assert redact(text) == text


def test_logs_are_json_and_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure_logs("tested")
        logger("x").info("something happened", url="postgresql://u:hunter22@h/d")
        logging.getLogger("y").warning("password=hunter22")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines[0]["event"] == "something happened"
    assert all(line["service"] == "tested" for line in lines)
    assert "hunter22" not in json.dumps(lines)
