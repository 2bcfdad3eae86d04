"""The operations of the HTTP API, and requests for them made from their schemas and from what is known.

A name leads to a value by convention: `session_id` is the id of something that `/v1/sessions` answered.
A body comes from its schema's example, else from its required fields.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    scopes: frozenset[str]
    parameters: tuple[str, ...]
    queries: tuple[str, ...]
    body: Json | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def collection(self) -> str:
        """The last part of the path that names things: `sessions`."""
        return next(part for part in reversed(self.path.split("/")) if part and "{" not in part)


def operations_of(document: Json) -> list[Operation]:
    """All of an OpenAPI document, those that make things first, those that remove them last."""
    found = [
        Operation(
            method.upper(),
            path,
            frozenset(scope for need in spec["security"] for scopes in need.values() for scope in scopes),
            tuple(item["name"] for item in spec.get("parameters", ()) if item["in"] == "path"),
            tuple(item["name"] for item in spec.get("parameters", ()) if item["in"] == "query"),
            _body_schema(document, spec),
        )
        for path, methods in document["paths"].items()
        for method, spec in methods.items()
    ]
    order = {"POST": 0, "PUT": 1, "PATCH": 2, "GET": 3, "DELETE": 9}
    return sorted(found, key=lambda one: (order[one.method], len(one.parameters), one.path))


def _body_schema(document: Json, spec: Json) -> Json | None:
    content = spec.get("requestBody", {}).get("content", {})
    for media in content.values():
        schema: Json = _resolved(document, media["schema"])
        return schema
    return None


def _resolved(document: Json, schema: Any) -> Any:
    if isinstance(schema, list):
        return [_resolved(document, one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _resolved(document, document["components"]["schemas"][name])
    return {key: _resolved(document, value) for key, value in schema.items()}


@dataclass
class Known:
    """Values by the names under which requests want them."""

    values: dict[str, str] = field(default_factory=dict)

    def learn(self, operation: Operation, answer: Any) -> None:
        """Takes ids and names from an answer; what is known already stays."""
        for item in _items(answer):
            noun = operation.collection.removesuffix("s")
            for key, value in item.items():
                if not isinstance(value, str) or not value:
                    continue
                if key == "id":
                    self.values.setdefault(f"{noun}_id", value)
                    self.values.setdefault(f"{operation.collection}.id", value)
                elif key.endswith("_id"):
                    self.values.setdefault(key, value)
                self.values.setdefault(f"{operation.collection}.{key}", value)

    def value(self, operation: Operation, name: str) -> str | None:
        """What a parameter of an operation should be."""
        plural = f"{name}s"
        for key in (name, f"{operation.collection}.{name}", f"{plural}.id", f"{plural}.name"):
            if key in self.values:
                return self.values[key]
        return self.values.get(f"{name}_id")

    def strangers(self) -> Known:
        """The same names with values that never were anybody's."""
        return Known({key: _never(value) for key, value in self.values.items()})


def _never(value: str) -> str:
    try:
        uuid.UUID(value)
    except ValueError:
        return f"never-{uuid.uuid4().hex[:8]}"
    return str(uuid.uuid4())


def _items(answer: Any) -> Iterator[Json]:
    if not isinstance(answer, dict):
        return
    listed = answer.get("items", answer.get("data"))
    yield from (one for one in listed or () if isinstance(one, dict))
    if listed is None:
        yield answer


@dataclass(frozen=True)
class Request:
    """An operation with everything filled in."""

    operation: Operation
    path: str
    params: dict[str, str]
    body: Json | None


def request_for(operation: Operation, known: Known) -> Request | None:
    """A request; None when an id that it needs is not known yet."""
    path = operation.path
    for name in operation.parameters:
        value = known.value(operation, name)
        if value is None:
            return None
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    params = {}
    for name in operation.queries:
        value = known.value(operation, name)
        if value is not None and not name.startswith("page_"):
            params[name] = value
    if operation.body is None:
        return Request(operation, path, params, None)
    body = _filled(operation, operation.body, known)
    if any(name not in body for name in operation.body.get("required", ())):
        return None
    return Request(operation, path, params, body)


def _filled(operation: Operation, schema: Json, known: Known) -> Json:
    # Hosts of examples are made new: what is unique in the installation is used once.
    example = json.dumps((schema.get("examples") or [{}])[0])
    body: Json = json.loads(example.replace("example.com", f"{uuid.uuid4().hex[:8]}.example.com"))
    for name, part in schema.get("properties", {}).items():
        value = known.value(operation, name) if name.endswith("_id") or name == "profile" else None
        if value is not None:
            body[name] = value
        elif name in schema.get("required", ()) and name not in body and not name.endswith("_id"):
            body[name] = _sample(part)
    return body


def _sample(schema: Json) -> Any:
    if schema.get("examples"):
        return schema["examples"][0]
    kind = schema.get("type")
    if kind == "string":
        return schema.get("enum", [f"sample-{uuid.uuid4().hex[:8]}"])[0]
    return {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}[kind]
