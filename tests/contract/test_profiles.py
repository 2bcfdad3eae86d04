"""What services must say alike of profiles, for none of them imports another."""

from __future__ import annotations

import json
from typing import get_args

from herma.agent_runner.domain.profile import Profile
from herma.agent_runner.tools import CORE_TOOLS
from herma.agent_runner.wire import profile_of
from herma.api.lease.v1 import lease_pb2
from herma.gateway.profile_bodies import ProfileSpecBody, ToolName
from herma.session_authority.domain import profile as rules
from herma.session_authority.domain.profile import ProfileSpec


def test_the_tools_are_those_of_the_runner() -> None:
    assert set(rules.TOOLS) == {tool.name for tool in CORE_TOOLS}


def test_the_gateway_has_the_same_limits() -> None:
    schema = ProfileSpecBody.model_json_schema()["properties"]
    assert set(schema) == {"description", "persona", "model", "tools", "max_iterations", "access"}
    assert schema["description"]["maxLength"] == rules.MAX_DESCRIPTION
    assert schema["persona"]["maxLength"] == rules.MAX_PERSONA
    assert schema["model"]["maxLength"] == rules.MAX_MODEL
    assert tuple(get_args(ToolName)) == rules.TOOLS
    assert schema["max_iterations"]["maximum"] == rules.MAX_ITERATIONS
    assert json.loads(ProfileSpec().to_json()) == ProfileSpecBody().model_dump()


def test_the_runner_reads_what_the_authority_stores() -> None:
    spec = ProfileSpec(persona="p", model="m", tools=("terminal",), max_iterations=3)
    lease = lease_pb2.Lease(profile=lease_pb2.Profile(spec=spec.to_json().encode()))
    assert profile_of(lease) == Profile("p", "m", frozenset({"terminal"}), 3)
    bare = lease_pb2.Lease(profile=lease_pb2.Profile(spec=ProfileSpec().to_json().encode()))
    assert profile_of(bare) == profile_of(lease_pb2.Lease()) == Profile()
