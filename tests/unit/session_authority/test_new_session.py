"""What a session may begin with, and who may name it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herma.common.errors import InvalidArgument
from herma.session_authority.domain.admission import request_digest
from herma.session_authority.domain.new_session import (
    MAX_HISTORY,
    MAX_HISTORY_BYTES,
    MAX_INSTRUCTIONS_BYTES,
    ImportedMessage,
    NewSession,
    check_new_session,
    session_key,
)

NAME = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=10)
SESSION = st.builds(
    NewSession,
    profile=NAME,
    key=NAME,
    title=NAME,
    instructions=NAME,
    history=st.lists(
        st.builds(ImportedMessage, st.sampled_from(["user", "assistant"]), NAME), max_size=3
    ).map(tuple),
)


@given(NAME, NAME, st.sampled_from(["openai", "webhook/route"]))
def test_no_name_of_a_callers_is_an_entrances(own: str, key: str, entrance: str) -> None:
    if not key:
        with pytest.raises(InvalidArgument):
            session_key(entrance, key)
        return
    if ":" in own:
        with pytest.raises(InvalidArgument) as reserved:
            session_key("", own)
        assert reserved.value.fields.keys() == {"key"}
        return
    assert session_key("", own) == own != session_key(entrance, key) == f"{entrance}:{key}"


@given(SESSION, SESSION)
def test_only_equal_sessions_have_equal_digests(one: NewSession, two: NewSession) -> None:
    assert (request_digest(*one.parts) == request_digest(*two.parts)) == (one == two)


def test_a_plain_sessions_digest_is_that_of_earlier_releases() -> None:
    assert NewSession("default", "key", "title").parts == ["default", "key", "title"]


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (NewSession("", "", "", "a\0b"), "instructions"),
        (NewSession("", "", "", "ü" * (MAX_INSTRUCTIONS_BYTES // 2 + 1)), "instructions"),
        (NewSession("", "", "", "", [ImportedMessage("user", "x")] * (MAX_HISTORY + 1)), "history"),
        (
            NewSession("", "", "", "", [ImportedMessage("user", "x" * (MAX_HISTORY_BYTES // 2 + 1))] * 2),
            "history",
        ),
        (
            NewSession("", "", "", "", [ImportedMessage("user", ""), ImportedMessage("tool", "x")]),
            "history[1]",
        ),
        (NewSession("", "", "", "", [ImportedMessage("user", "\0")]), "history[0]"),
        (NewSession("", "x" * 201, ""), "key"),
        (NewSession("", "", "a\nb"), "title"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(new: NewSession, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_new_session(new)
    assert refused.value.fields.keys() == {field}


def test_as_much_as_is_allowed_is_taken() -> None:
    part = MAX_HISTORY_BYTES // MAX_HISTORY
    history = [ImportedMessage("user", "x" * part)] * MAX_HISTORY
    check_new_session(NewSession("p" * 200, "k" * 200, "t" * 200, "i" * MAX_INSTRUCTIONS_BYTES, history))
