"""Who is woken by whom."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from herma.common.postgres import Database
from herma.session_authority import bells
from herma.session_authority.bells import Belfry

SESSION = uuid4()


@pytest.fixture
def belfry() -> Belfry:
    # Nothing connects before the database is opened.
    return Belfry(Database("postgresql://nobody@127.0.0.1:1/none"), "me")


def rung(belfry: Belfry, payload: str, channel: str = bells.SESSION, of: UUID = SESSION) -> bool:
    """Whether a session's bell rings on a notification."""
    with belfry.session(of) as bell:
        ticket = bell.ticket()
        belfry.heard(channel, payload)
        return bell.ticket() != ticket


def test_another_replica_wakes_the_session_that_it_names(belfry: Belfry) -> None:
    assert rung(belfry, f"other {SESSION}")
    assert not rung(belfry, f"other {uuid4()}")
    assert not rung(belfry, f"other {SESSION}", bells.WORK)


def test_a_replica_does_not_hear_itself(belfry: Belfry) -> None:
    assert not rung(belfry, f"me {SESSION}")
    work, signals = belfry.work.ticket(), belfry.signals.ticket()
    belfry.heard(bells.WORK, "me ")
    belfry.heard(bells.SIGNAL, "me ")
    assert (belfry.work.ticket(), belfry.signals.ticket()) == (work, signals)


def test_its_own_ring_wakes_at_once(belfry: Belfry) -> None:
    with belfry.session(SESSION) as bell:
        ticket = bell.ticket()
        belfry.ring_session(SESSION)
        assert bell.ticket() == ticket + 1


def test_what_may_have_been_missed_wakes_all(belfry: Belfry) -> None:
    assert rung(belfry, "")
    work, signals = belfry.work.ticket(), belfry.signals.ticket()
    belfry.heard(bells.WORK, "")
    belfry.heard(bells.SIGNAL, "")
    assert belfry.work.ticket() > work
    assert belfry.signals.ticket() > signals


def test_other_replicas_ring_for_work_and_signals(belfry: Belfry) -> None:
    work, signals = belfry.work.ticket(), belfry.signals.ticket()
    belfry.heard(bells.WORK, "other ")
    belfry.heard(bells.SIGNAL, "other ")
    assert (belfry.work.ticket(), belfry.signals.ticket()) == (work + 1, signals + 1)
