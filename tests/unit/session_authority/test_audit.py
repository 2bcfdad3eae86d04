"""The audit log's chain: whatever is done to it, it shows."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herma.session_authority.domain.audit import (
    ORIGIN,
    Anchor,
    ChainCheck,
    Record,
    anchor_line,
    anchor_of_line,
    details_text,
    record_lines,
    record_of_line,
)

TENANT = uuid4()
NOW = datetime(2026, 12, 1, 12, 0, 0, 123456, tzinfo=UTC)


def chain(length: int, tenant: UUID = TENANT) -> list[Record]:
    """A chain that holds."""
    made: list[Record] = []
    for seq in range(1, length + 1):
        previous = made[-1].hash if made else ORIGIN
        record = Record(
            tenant, seq, NOW, uuid4(), None, "key.created", str(uuid4()), "done", "{}", "", previous
        )
        made.append(record.sealed())
    return made


def findings(
    records: list[Record], *anchors: Anchor, head: Anchor | None = None
) -> list[tuple[int, str]]:
    check = ChainCheck(TENANT, anchors)
    for record in records:
        check.take(record)
    return [(found.seq, found.text.split(":")[0]) for found in check.verdict(head).findings]


def anchor(record: Record) -> Anchor:
    return Anchor(record.tenant_id, record.seq, record.hash)


texts = st.text(max_size=20)
records = st.builds(
    Record,
    st.uuids(),
    st.integers(1, 2**62),
    st.datetimes(timezones=st.just(UTC)),
    st.none() | st.uuids(),
    st.none() | st.uuids(),
    texts,
    texts,
    texts,
    st.dictionaries(texts, texts, max_size=3).map(details_text),
    texts,
    st.binary(min_size=32, max_size=32),
).filter(lambda record: "\ud800" not in repr(record))


@given(records, records)
def test_no_two_records_have_one_hash(one: Record, other: Record) -> None:
    assert (one.digest() == other.digest()) == (one == other)


@given(records, st.data())
def test_text_cannot_move_from_field_to_field(record: Record, data: st.DataObject) -> None:
    names = ["action", "target", "outcome", "details", "trace_id"]
    index = data.draw(st.integers(0, 3))
    first, second = names[index], names[index + 1]
    whole = getattr(record, first) + getattr(record, second)
    cut = data.draw(st.integers(0, len(whole)))
    moved = replace(record, **{first: whole[:cut], second: whole[cut:]})
    assert (moved.digest() == record.digest()) == (moved == record)


def test_time_is_hashed_as_an_instant() -> None:
    (record,) = chain(1)
    elsewhere = replace(record, at=record.at.astimezone(timezone(timedelta(hours=9))))
    assert elsewhere.digest() == record.hash


@given(records)
def test_an_export_says_the_same(record: Record) -> None:
    sealed = record.sealed()
    (line,) = record_lines([sealed])
    assert "\n" not in line
    assert record_of_line(line) == sealed


def test_a_chain_that_holds_holds() -> None:
    records = chain(5)
    assert findings(records, anchor(records[1]), anchor(records[4]), head=anchor(records[4])) == []
    assert findings([], head=Anchor(TENANT, 0, ORIGIN)) == []


@pytest.mark.parametrize("name", [field.name for field in fields(Record) if field.name != "hash"])
def test_a_changed_field_shows(name: str) -> None:
    records = chain(3)
    value = getattr(records[1], name)
    other = {
        str: "other",
        int: 7,
        datetime: NOW + timedelta(microseconds=1),
        UUID: uuid4(),
        type(None): uuid4(),
        bytes: bytes(31) + b"x",
    }[type(value)]
    records[1] = replace(records[1], **{name: other})
    assert findings(records)


def test_what_is_taken_out_repeated_or_swapped_shows() -> None:
    records = chain(4)
    assert findings([records[0], *records[2:]]) == [(3, "follows 1")]
    assert findings([*records[:2], records[1], *records[2:]])
    assert findings([records[0], records[2], records[1], records[3]])
    assert findings(records[1:])


def test_a_cut_end_shows_by_the_head_or_by_an_anchor() -> None:
    records = chain(4)
    assert findings(records[:3], head=anchor(records[3])) == [
        (4, "is the stored end, which is not the last record")
    ]
    assert findings(records[:3], anchor(records[3]), head=anchor(records[2])) == [
        (4, "was anchored and is missing")
    ]


def test_a_chain_written_anew_shows_by_an_anchor() -> None:
    old, new = chain(4), chain(4)
    assert findings(new, head=anchor(new[3])) == []
    assert findings(new, anchor(old[1]), head=anchor(new[3])) == [(2, "is not what was anchored")]
    # Two anchors of one record that differ cannot both be right.
    assert findings(old, anchor(old[1]), anchor(new[1]))


def test_another_tenants_anchors_and_records_are_told_apart() -> None:
    theirs = chain(2, uuid4())
    records = chain(2)
    assert findings(records, anchor(theirs[1])) == []
    assert findings([records[0], theirs[1]])


def test_findings_are_bounded() -> None:
    records = [replace(record, action="other") for record in chain(100)]
    assert len(findings(records)) == 20


def test_anchors_are_read_as_written() -> None:
    made = anchor(chain(1)[0])
    assert anchor_of_line(anchor_line(made, NOW)) == made


@pytest.mark.parametrize("line", ["", "{}", "[]", "7", "null", '{"tenant_id": 7}', "not JSON"])
def test_what_is_no_record_is_refused(line: str) -> None:
    for read in (record_of_line, anchor_of_line):
        with pytest.raises(ValueError, match=r".*"):
            read(line)
