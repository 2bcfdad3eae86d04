"""What a profile may say."""

from __future__ import annotations

import json

import pytest

from herma.common.errors import InvalidArgument
from herma.session_authority.domain.profile import check_profile_name, parse_spec


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ('{"personna": "x", "toolsets": []}', "personna", "is not a known field"),
        ('{"persona": "' + "x" * 20_001 + '"}', "persona", "20000"),
        ('{"description": "' + "x" * 501 + '"}', "description", "500"),
        ('{"model": "a\\nb"}', "model", "one line"),
        ('{"persona": "\\u0000"}', "persona", "U+0000"),
        ('{"persona": "\\ud800"}', "spec", "JSON"),
        ('{"persona": 5}', "persona", "string"),
        ('{"tools": ["terminal", "no_such"]}', "tools", "no tool 'no_such'"),
        ('{"tools": "terminal"}', "tools", "array"),
        ('{"max_iterations": 0}', "max_iterations", "1"),
        ('{"max_iterations": 501}', "max_iterations", "500"),
        ('{"max_iterations": "5"}', "max_iterations", "integer"),
        ('{"max_iterations": true}', "max_iterations", "integer"),
        ("[]", "spec", "object"),
        ("", "spec", "JSON"),
        ("{" * 1000, "spec", "JSON"),
        (" " * 300_000, "spec", "at most"),
    ],
)
def test_a_malformed_spec_names_what_is_wrong(text: str, field: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse_spec(text)
    assert says in refusal.value.fields[field]


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse_spec('{"a": 1, "b": 2, "model": 3}')
    assert set(refusal.value.fields) == {"a", "b", "model"}


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a b", "a/b", "x" * 64, "ü", "a\n"])
def test_a_name_is_a_label(name: str) -> None:
    with pytest.raises(InvalidArgument):
        check_profile_name(name)


def test_the_largest_spec_is_taken() -> None:
    spec = {"description": "\u0001" * 500, "persona": "\u0001" * 20_000, "model": "m" * 200}
    parsed = parse_spec(json.dumps(spec))
    assert parse_spec(parsed.to_json()) == parsed


def test_the_order_of_tools_says_nothing() -> None:
    one = parse_spec('{"tools": ["terminal", "read_file", "terminal"]}')
    assert one == parse_spec('{"tools": ["read_file", "terminal"]}')
