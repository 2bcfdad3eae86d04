"""What compose.yaml promises: who may do what, and that it asks for nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_settings import BaseSettings

from herma.agent_runner.settings import RunnerSettings
from herma.common.settings import ServiceSettings
from herma.gateway.settings import GatewaySettings
from herma.local.compose_env import complete, variable_of
from herma.local.installation import PAIRS
from herma.local.platform import SCHEMAS
from herma.local.settings import BootstrapSettings, UpSettings
from herma.memory.settings import MemorySettings
from herma.session_authority.settings import AuthoritySettings
from herma.tool_sandbox.broker.settings import BrokerSettings
from herma.tool_sandbox.settings import SandboxSettings

_ROOT = Path(__file__).resolve().parents[3]
_TEXT = (_ROOT / "compose.yaml").read_text()
_FILE: dict[str, Any] = yaml.safe_load(_TEXT)
_ALL: dict[str, dict[str, Any]] = _FILE["services"]

_SETTINGS: dict[str, tuple[type[BaseSettings], ...]] = {
    "migrate": (UpSettings,),
    "bootstrap": (BootstrapSettings,),
    "session-authority": (AuthoritySettings,),
    "memory": (MemorySettings,),
    "tool-sandbox": (SandboxSettings, BrokerSettings),
    "agent-runner": (RunnerSettings,),
    "gateway": (GatewaySettings,),
}
_ERRANDS = {"migrate", "bootstrap"}
# Whose keys each container holds.
_SPEAKERS = {
    "bootstrap": {"operator"},
    "session-authority": {"session-authority"},
    "memory": {"memory"},
    "tool-sandbox": {"tool-sandbox", "tool-sandbox-broker"},
    "agent-runner": {"agent-runner"},
    "gateway": {"gateway"},
}
_UIDS = {"herma": 10100, "herma-sandbox": 10101, "herma-broker": 10102}


def targets(service: dict[str, Any]) -> dict[str, str]:
    """Mounts of a service: target to the whole entry."""
    found = {}
    for entry in service.get("volumes", ()):
        plain = re.sub(r"\$\{(\w+)[^}]*\}", r"/\1", entry)
        found[plain.split(":")[1]] = plain
    return found


def variables(cls: type[BaseSettings]) -> dict[str, bool]:
    """The variables of a settings class, and whether each is required."""
    return {
        str(field.validation_alias or f"HERMA_{name.upper()}"): field.is_required()
        for name, field in cls.model_fields.items()
    }


def test_every_part_is_there() -> None:
    assert set(_ALL) == {"postgres", *_SETTINGS}


def test_tool_sandbox_alone_has_the_engine() -> None:
    having = {name for name, service in _ALL.items() if "docker.sock" in str(service.get("volumes"))}
    assert having == {"tool-sandbox"}
    assert _ALL["tool-sandbox"]["command"] == ["herma", "serve", "tool-sandbox", "--with-broker"]


@pytest.mark.parametrize("name", sorted(_ALL))
def test_every_container_is_confined(name: str) -> None:
    service = _ALL[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert "devices" not in service
    assert service["mem_limit"]
    assert service["cpus"]
    assert service["pids_limit"]
    assert any(entry.startswith("/tmp:size=") for entry in service["tmpfs"])
    assert service["logging"]["options"]["max-size"]


def test_only_what_must_starts_as_root_with_three_capabilities() -> None:
    users = {name: service["user"] for name, service in _ALL.items()}
    assert users.pop("tool-sandbox") == "0:0"
    assert users.pop("postgres") == "999:999"
    assert set(users.values()) == {f"{_UIDS['herma']}:{_UIDS['herma']}"}
    capable = {name: service["cap_add"] for name, service in _ALL.items() if "cap_add" in service}
    assert capable == {"tool-sandbox": ["CHOWN", "SETGID", "SETUID"]}


def test_the_users_are_the_image_s() -> None:
    dockerfile = (_ROOT / "services/Dockerfile").read_text().replace("\\\n", " ")
    for name, uid in _UIDS.items():
        assert re.search(rf"useradd --uid {uid} [^;]*\b{name}\s*(;|\n)", dockerfile), name
    assert re.search(r"^USER herma$", dockerfile, re.MULTILINE)
    probe = " ".join(_ALL["tool-sandbox"]["healthcheck"]["test"])
    assert f"--reuid={_UIDS['herma-sandbox']} --regid={_UIDS['herma']} --clear-groups" in probe


def test_the_gateway_is_published_on_the_loopback_address_and_nothing_else_is() -> None:
    published = {name: service["ports"] for name, service in _ALL.items() if "ports" in service}
    assert published == {"gateway": ["127.0.0.1:${HERMA_HTTP_PORT:-8700}:8700"]}


def test_only_the_gateway_and_the_runner_have_a_network_and_not_the_same() -> None:
    networks = {name: service["networks"] for name, service in _ALL.items() if "networks" in service}
    assert networks == {"gateway": ["entrance"], "agent-runner": ["models"]}
    for name in _ALL.keys() - networks.keys():
        assert _ALL[name]["network_mode"] == "none", name
    assert {name for name, service in _ALL.items() if "pid" in service} == {"tool-sandbox"}
    assert not any(key in service for service in _ALL.values() for key in ("ipc", "userns_mode", "uts"))


def test_services_speak_by_sockets_that_only_their_server_can_replace() -> None:
    for name, service in _ALL.items():
        spoken = re.findall(r"unix:(/run/herma/\w+)/rpc.sock", str(service.get("environment")))
        for folder in spoken:
            entry = targets(service)[folder]
            serves = f"unix:{folder}/rpc.sock" == service["environment"].get("HERMA_LISTEN")
            assert entry.endswith(":ro") != serves, (name, entry)
    for name, service in _ALL.items():
        if name != "postgres":
            assert targets(service).get("/run/postgresql", ":ro").endswith(":ro"), name
    for name, volume in _FILE["volumes"].items():
        if name not in ("database", "audit-anchors"):
            assert volume["driver_opts"]["type"] == "tmpfs"
            assert re.search(r"gid=10100,mode=\d?750$", volume["driver_opts"]["o"]), name


@pytest.mark.parametrize("name", sorted(_SETTINGS))
def test_every_variable_is_a_setting_and_none_that_is_needed_lacks(name: str) -> None:
    given = set(_ALL[name]["environment"])
    known: dict[str, bool] = {}
    for cls in _SETTINGS[name]:
        known |= variables(cls)
    if name == "migrate":
        # They are read by the command itself; its description names them.
        known |= {f"HERMA_{schema.schema.upper()}_PASSWORD": True for schema in SCHEMAS}
    assert given <= known.keys()
    assert {variable for variable, needed in known.items() if needed} <= given


def test_secrets_have_no_default_and_are_what_compose_env_makes() -> None:
    asked = set(re.findall(r"\$\{(\w+):\?", _TEXT))
    assert asked == set(complete({}))
    defaults = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", _TEXT))
    assert not asked & defaults.keys()
    for name, value in defaults.items():
        if re.search("KEY|PASSWORD|SECRET|TOKEN", name):
            assert value == "", name
    # Nothing is taken from the environment without saying what happens when it is not there.
    assert re.findall(r"\$\{\w+\}|\$[A-Za-z_]", _TEXT) == []


@pytest.mark.parametrize("name", sorted(_SPEAKERS))
def test_each_service_holds_the_keys_of_its_own_pairs(name: str) -> None:
    held = dict(re.findall(r'"([\w>-]+)": "\$\{(\w+):', _ALL[name]["environment"]["HERMA_SERVICE_KEYS"]))
    own = {pair for pair in PAIRS if _SPEAKERS[name] & set(pair.split(">"))}
    assert held == {pair: variable_of(pair) for pair in own}


def test_what_stays_is_restarted_probed_and_given_time_to_hand_over() -> None:
    drain = ServiceSettings.model_fields["drain_seconds"].default
    for name, service in _ALL.items():
        assert (service["restart"] == "no") == (name in _ERRANDS), name
        assert ("healthcheck" in service) == (name not in _ERRANDS), name
        assert int(service["stop_grace_period"].removesuffix("s")) > drain, name
        for other, condition in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if other in _ERRANDS else "service_healthy"
            assert condition == {"condition": wanted}, (name, other)


def test_the_documents_name_every_variable_that_may_be_set() -> None:
    told = (_ROOT / "docs/compose.md").read_text()
    for name in re.findall(r"\$\{(\w+):-", _TEXT):
        assert f"`{name}`" in told, name
