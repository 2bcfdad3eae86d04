"""Every RPC of the protos, and requests for them made from their messages and from what is known."""

from __future__ import annotations

import importlib
import pkgutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

import herma.api
from herma.api.ledger.v1 import ledger_pb2
from tests.e2e.isolation.operations import Known

# What a field of this name is filled with when nothing of A's has the name.
_SAMPLES: dict[str, Any] = {
    "audience": "herma",
    "audiences": ["herma"],
    "content": "HI",
    "default_role": "member",
    "groups": [],
    "manages": True,
    "mode": "",
    "role": "member",
    "right": "use",
    "scopes": [],
    "spec": b"{}",
}
# Messages that a request is about; all others say more than is needed.
_WHOLE = frozenset({"issuer"})
# Left empty: what an entrance says of itself, and what makes a request another one.
_EMPTY = frozenset(
    {
        "algorithms",
        "entrance",
        "expected_version",
        "fingerprint",
        "idempotency_key",
        "kind",
        "page_token",
        "roles",
        "target",
        "traceparent",
        "version",
    }
)


@dataclass(frozen=True)
class Method:
    """One RPC."""

    descriptor: MethodDescriptor

    def __str__(self) -> str:
        return self.descriptor.full_name

    @property
    def path(self) -> str:
        """As it is called."""
        return f"/{self.descriptor.containing_service.full_name}/{self.descriptor.name}"

    @property
    def service(self) -> str:
        """The domain: `herma.api.<domain>.v1`."""
        return self.descriptor.containing_service.full_name.split(".")[2]

    @property
    def has_caller(self) -> bool:
        """The request names its caller."""
        return "caller" in self.descriptor.input_type.fields_by_name

    def request(self, known: Known, caller: ledger_pb2.Caller | None = None) -> Message:
        """A request about what is known."""
        made = message_factory.GetMessageClass(self.descriptor.input_type)()
        for part in self.descriptor.input_type.fields:
            if part.name == "caller" and caller is not None:
                made.caller.CopyFrom(caller)
            else:
                _fill(made, part, known)
        return made


def methods() -> list[Method]:
    """All of all protos."""
    return sorted(_found(), key=str)


def _found() -> Iterator[Method]:
    for module in pkgutil.walk_packages(herma.api.__path__, "herma.api."):
        if module.name.endswith("_pb2"):
            described = importlib.import_module(module.name).DESCRIPTOR
            for service in described.services_by_name.values():
                for method in service.methods:
                    yield Method(method)


def _fill(made: Any, part: FieldDescriptor, known: Known) -> None:
    name = part.name
    if name in _EMPTY or (part.is_repeated and name not in _SAMPLES):
        return
    if part.message_type is not None:
        if name in _WHOLE:
            for inner in part.message_type.fields:
                if inner.name not in ("id", "created_at"):
                    _fill(getattr(made, name), inner, known)
        return
    value = known.values.get(name, _SAMPLES.get(name))
    if name == "issuer":
        # Unique in the installation.
        value = f"https://{uuid.uuid4().hex[:8]}.example.com"
    if part.is_repeated:
        getattr(made, name).extend(value or [])
    elif value is not None and name != "caller":
        setattr(made, name, value)
    elif part.type == FieldDescriptor.TYPE_STRING and not name.endswith("_id"):
        setattr(made, name, f"sample-{uuid.uuid4().hex[:8]}")
    elif part.type == FieldDescriptor.TYPE_STRING:
        setattr(made, name, "")
