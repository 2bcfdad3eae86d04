"""Files of profiles: read whole or refused whole."""

from __future__ import annotations

import json

import pytest

from herma.cli.profile_file import ProfileFileError, profile_text, read_profiles
from herma.session_authority.domain.profile import ProfileSpec

DEFAULTS = json.loads(ProfileSpec().to_json())


def refusal(*contents: bytes) -> str:
    with pytest.raises(ProfileFileError) as caught:
        read_profiles([(f"f{number}", content) for number, content in enumerate(contents)])
    return caught.value.message


def test_documents_of_all_files_are_read_in_order() -> None:
    yaml = b"---\nname: one\n---\n---\nname: two\nversion: 4\nmax_iterations: 7\n"
    listed = b'[{"name": "three"}, {"name": "four", "tools": []}]'
    found = read_profiles([("a", yaml), ("b", listed)])
    assert [(entry.name, entry.version) for entry in found] == [
        ("one", 0),
        ("two", 4),
        ("three", 0),
        ("four", 0),
    ]
    assert found[0].spec == DEFAULTS
    assert found[1].spec == {**DEFAULTS, "max_iterations": 7}
    assert found[3].spec["tools"] == []
    assert found[1].place == "a:5"


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"name: n\npersona: no", "no"),
        (b"name: n\npersona: 2026-01-02", "2026-01-02"),
        (b"\xef\xbb\xbfname: n\npersona: x", "x"),
        (b'{"name": "n",\t"persona": "\\ud83d\\ude00\\t\\/"}', "\U0001f600\t/"),
        (b"{name: n, persona: 'it''s'}", "it's"),
        (b"name: n\npersona: |\n  a\n  b\n", "a\nb\n"),
        (b"name: n\ndescription: &d both\npersona: *d\n", "both"),
    ],
)
def test_text_is_what_people_mean(content: bytes, value: str) -> None:
    assert read_profiles([("f", content)])[0].spec["persona"] == value


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "f0: there is no profile in it"),
        (b"---\n---\n", "f0: there is no profile in it"),
        (b"[]", "f0: there is no profile in it"),
        (b"- a\n", "f0:1: a profile is a mapping of fields"),
        (b'"text"', "f0: a profile is an object with fields"),
        (b"persona: x", "f0:1: name: must be text"),
        (b"name: n\n\npersona: true", "f0:3: persona: "),
        (b"name: n\ntools: {a: b}", "f0:2: tools: must be text, a number or a list of text"),
        (b"name: n\ntools: [[a]]", "f0:2: tools: must be text, a number or a list of text"),
        (b"name: n\npersona: !!binary aGk=", "f0:2: persona: must be text"),
        (b"name: n\npersona: !!python/name:os.system", "f0:2:10: could not determine"),
        (b"name: n\nname: m", "f0:2: name: is given twice"),
        (b'{"name": "n", "name": "m"}', "f0: name: is given twice"),
        (b"name: n\nversion: x", "f0:2: version: must be the number of a version"),
        (b"name: n\nversion: true", "f0:2: version: must be the number of a version"),
        (b"name: n\npersona: *nothing", "f0:2:10: found undefined alias"),
        (b"name: n\n? [a]\n: b", "f0:2: a field's name is text"),
        (b"name: n\npersona: [\n", "f0:3:1: "),
        (b"name: \xff", "f0: is not UTF-8 at byte 6"),
        (b"name: n\0", "f0: unacceptable character"),
        (b"[" * 100_000, "f0: is nested too deeply"),
        (b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\nname: n", "f0:2: b: is not a known field"),
        (b"#" * 5_000_000, "f0: is larger than"),
    ],
)
def test_a_mistake_is_told_with_its_place(content: bytes, says: str) -> None:
    assert says in refusal(content)


def test_all_mistakes_of_all_files_are_told_together() -> None:
    told = refusal(b"name: a\nx: 1\nmodel: 2\n---\nname: A", b"name: [", b"name: a\n---\nname: a\n")
    assert [line.strip().rpartition(": ")[0] for line in told.splitlines()[1:]] == [
        "f0:2: x",
        "f0:3: model",
        "f0:5: name",
        "f1:1:8",
        "f2:3",
    ]


@pytest.mark.parametrize(
    "text", ["", "a\nb\n", "a\n\n b", "no", "12", "- x: y", "grüß 🜂", "\u202ereversed\n"]
)
def test_what_is_shown_can_be_applied_again(text: str) -> None:
    spec = {**DEFAULTS, "persona": text, "tools": ["terminal"]}
    shown = profile_text("n", spec)
    assert read_profiles([("f", shown.encode())])[0].spec == spec
    assert "\u202e" not in shown
