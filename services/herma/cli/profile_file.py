"""Files of profiles: YAML or JSON, one profile per document.

    name: reviewer
    description: Reviews changes.
    persona: |
      You review changes. You are brief.
    tools: [read_file]

Invariant: a set of files is read whole or refused whole, each mistake with its place; what is read is
what session-authority will accept, for its own rules are applied here.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from herma.cli.terminal_text import clean
from herma.common.errors import HermaError, InvalidArgument
from herma.session_authority.domain.profile import ProfileSpec, check_profile_name, parse_spec

_MAX_BYTES = 4 * 1024 * 1024
_YAML = "tag:yaml.org,2002:"
_FIELDS = frozenset(field.name for field in dataclasses.fields(ProfileSpec))
_KNOWN = _FIELDS | {"name", "version"}


class ProfileFileError(HermaError):
    """The files cannot be applied; nothing was changed."""

    reason = "PROFILE_FILE_INVALID"


@dataclass(frozen=True, slots=True)
class ProfileDocument:
    """One profile of a file.

    `version` is the one that it was made from, 0 if it does not say.  `place` is `file:line`.
    """

    name: str
    version: int
    spec: dict[str, Any]
    place: str


@dataclass(frozen=True, slots=True)
class _Raw:
    """A document's fields with the line of each, as far as known."""

    place: str
    fields: dict[str, Any]
    lines: dict[str, str]

    def at(self, field: str) -> str:
        return self.lines.get(field.partition(".")[0], self.place)


class _Flaw(Exception):
    """Something at a place that cannot be read."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML is untyped here
    """YAML as people mean it: `no` and what looks like a date are text."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] not in (_YAML + "timestamp", _YAML + "bool")]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _YAML + "bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), "tTfF"
)


def read_profiles(sources: Sequence[tuple[str, bytes]]) -> list[ProfileDocument]:
    """Reads files, given as name and content.

    Raises:
        ProfileFileError: with all that is wrong, one mistake a line, when anything is.
    """
    problems: list[str] = []
    found: dict[str, ProfileDocument] = {}
    for label, content in sources:
        try:
            raws = list(_documents(label, content))
        except _Flaw as flaw:
            problems.append(str(flaw))
            continue
        if not raws:
            problems.append(f"{label}: there is no profile in it")
        for raw in raws:
            document = _checked(raw, problems)
            if document is None:
                continue
            if document.name in found:
                first = found[document.name].place
                problems.append(f"{raw.at('name')}: {document.name!r} is also at {first}")
            found.setdefault(document.name, document)
    if problems:
        raise ProfileFileError("nothing was changed:\n" + "\n".join(f"  {text}" for text in problems))
    return list(found.values())


def profile_text(name: str, spec: dict[str, Any]) -> str:
    """A profile as such a file; what could drive a terminal is escaped in it."""
    shown = {"name": name, **{key: value for key, value in spec.items() if value is not None}}
    harmless = all(clean(value) == value for value in shown.values() if isinstance(value, str))
    text: str = yaml.dump(shown, Dumper=_Dumper, allow_unicode=harmless, sort_keys=False, width=100)
    return text


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML is untyped here
    """Writes text of several lines as a block."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar(_YAML + "str", text, style=style)


_Dumper.add_representer(str, _block)


def _checked(raw: _Raw, problems: list[str]) -> ProfileDocument | None:
    """The document, or None with its mistakes told."""
    flaws = list(_flaws(raw.fields))
    problems.extend(f"{raw.at(field)}: {field[:100]}: {text}" for field, text in flaws)
    if flaws:
        return None
    spec = json.loads(parse_spec(_spec_json(raw.fields)).to_json())
    return ProfileDocument(raw.fields["name"], raw.fields.get("version", 0), spec, raw.place)


def _flaws(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields with what is wrong with each."""
    yield from ((field, "is not a known field") for field in fields if field not in _KNOWN)
    name, version = fields.get("name"), fields.get("version", 0)
    if not isinstance(name, str):
        yield "name", "must be text"
    else:
        try:
            check_profile_name(name)
        except InvalidArgument as error:
            yield from error.fields.items()
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 10**9:
        yield "version", "must be the number of a version"
    try:
        parse_spec(_spec_json(fields))
    except InvalidArgument as error:
        yield from error.fields.items()


def _spec_json(fields: dict[str, Any]) -> str:
    return json.dumps({field: value for field, value in fields.items() if field in _FIELDS})


def _documents(label: str, content: bytes) -> Iterator[_Raw]:
    if len(content) > _MAX_BYTES:
        raise _Flaw(f"{label}: is larger than {_MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Flaw(f"{label}: is not UTF-8 at byte {error.start}") from error
    try:
        # JSON is not quite YAML: tabs, and characters that it escapes in two halves.
        value = json.loads(text, object_pairs_hook=lambda pairs: _object(label, pairs))
    except RecursionError as error:
        raise _Flaw(f"{label}: is nested too deeply") from error
    except ValueError:
        yield from _yaml_documents(label, text)
        return
    for entry in value if isinstance(value, list) else [value]:
        if not isinstance(entry, dict):
            raise _Flaw(f"{label}: a profile is an object with fields")
        yield _Raw(label, entry, {})


def _object(label: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Flaw(f"{label}: {twice[:100]}: is given twice")
    return fields


def _yaml_documents(label: str, text: str) -> Iterator[_Raw]:
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                if isinstance(node, yaml.ScalarNode) and not node.value:
                    continue  # between two separators there is nothing
                yield _mapping(label, loader, node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{label}:{mark.line + 1}:{mark.column + 1}" if mark else label
        raise _Flaw(f"{place}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise _Flaw(f"{label}: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise _Flaw(f"{label}: is nested too deeply") from error


def _mapping(label: str, loader: _Loader, node: yaml.Node) -> _Raw:
    if not isinstance(node, yaml.MappingNode):
        raise _Flaw(f"{_place(label, node)}: a profile is a mapping of fields")
    fields: dict[str, Any] = {}
    lines: dict[str, str] = {}
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if not name:
            raise _Flaw(f"{_place(label, key)}: a field's name is text")
        if name in fields:
            raise _Flaw(f"{_place(label, key)}: {name[:100]}: is given twice")
        lines[name] = _place(label, key)
        fields[name] = _value(label, name, loader, value)
    return _Raw(_place(label, node), fields, lines)


def _value(label: str, field: str, loader: _Loader, node: yaml.Node) -> Any:
    """A scalar or a list of scalars: all that fields are, so that aliases cannot multiply."""
    parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if field not in _KNOWN:
        return None  # told as such, whatever it is
    if not all(isinstance(part, yaml.ScalarNode) for part in parts):
        raise _Flaw(f"{_place(label, node)}: {field}: must be text, a number or a list of text")
    values = [loader.construct_object(part) for part in parts]
    for value in values:
        if not isinstance(value, str | int | float | bool | None):
            raise _Flaw(f"{_place(label, node)}: {field}: must be text, a number or a list of text")
    return values if isinstance(node, yaml.SequenceNode) else values[0]


def _place(label: str, node: yaml.Node) -> str:
    return f"{label}:{node.start_mark.line + 1}"
