"""Where a submission goes, as the wire says it."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from herma.api.session.v1 import session_pb2
from herma.common.errors import InvalidArgument
from herma.session_authority.domain.new_session import ImportedMessage, NewSession
from herma.session_authority.wire import new_session_of, target_of


def test_a_submission_goes_to_a_session_or_to_one_to_be_made() -> None:
    session_id = uuid4()
    assert target_of(session_pb2.SubmitRequest(session_id=str(session_id))) == UUID(str(session_id))
    new = session_pb2.NewSession(profile="p", key="k", entrance="openai", instructions="i")
    new.history.add(role="user", content="c")
    assert target_of(session_pb2.SubmitRequest(new_session=new)) == NewSession(
        "p", "openai:k", "", "i", [ImportedMessage("user", "c")]
    )


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (session_pb2.SubmitRequest(), "session_id"),
        (
            session_pb2.SubmitRequest(session_id=str(uuid4()), new_session=session_pb2.NewSession()),
            "new_session",
        ),
        (session_pb2.SubmitRequest(new_session=session_pb2.NewSession(key="a:b")), "key"),
        (session_pb2.SubmitRequest(new_session=session_pb2.NewSession(entrance="openai")), "entrance"),
    ],
)
def test_a_submission_without_one_target_is_refused(
    request_: session_pb2.SubmitRequest, field: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        target_of(request_)
    assert refused.value.fields.keys() == {field}


def test_a_caller_cannot_make_an_entrances_session() -> None:
    with pytest.raises(InvalidArgument):
        new_session_of(session_pb2.CreateSessionRequest(key="openai:default:ann"))
