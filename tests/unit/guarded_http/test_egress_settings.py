"""What the operator says about URLs of tenants."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from pydantic import ValidationError

from herma.common.guarded_http import AddressPolicy, egress_client
from herma.common.settings import EgressSettings


def test_nothing_said_is_the_policy_of_nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALLOWED_NETWORKS", "DENIED_NETWORKS", "PORTS", "CA_FILE"):
        monkeypatch.delenv(f"HERMA_EGRESS_{name}", raising=False)
    settings = EgressSettings()
    assert settings.egress_port_ranges == AddressPolicy().ports
    assert settings.egress_allowed_networks == settings.egress_denied_networks == ()


def test_networks_and_ports_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMA_EGRESS_ALLOWED_NETWORKS", "10.0.0.0/8, fd00::/8")
    monkeypatch.setenv("HERMA_EGRESS_DENIED_NETWORKS", "203.0.113.7")
    monkeypatch.setenv("HERMA_EGRESS_PORTS", "443, 8000-8999")
    settings = EgressSettings()
    assert settings.egress_allowed_networks == (
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_network("fd00::/8"),
    )
    assert settings.egress_denied_networks == (ipaddress.ip_network("203.0.113.7/32"),)
    assert settings.egress_port_ranges == (range(443, 444), range(8000, 9000))


@pytest.mark.parametrize("ports", ["", "0", "65536", "90-80", "http", "80,,443", "1-", "-1"])
def test_what_are_no_ports_is_refused(monkeypatch: pytest.MonkeyPatch, ports: str) -> None:
    monkeypatch.setenv("HERMA_EGRESS_PORTS", ports)
    with pytest.raises(ValidationError):
        EgressSettings()


@pytest.mark.parametrize("name", ["ALLOWED", "DENIED"])
@pytest.mark.parametrize("networks", ["10.0.0.1/8", "10.0.0.0/33", "example.com"])
def test_what_are_no_networks_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, networks: str
) -> None:
    monkeypatch.setenv(f"HERMA_EGRESS_{name}_NETWORKS", networks)
    with pytest.raises(ValidationError):
        EgressSettings()


def test_a_file_of_authorities_must_be_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMA_EGRESS_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(ValidationError):
        EgressSettings()
    (tmp_path / "none.pem").write_text("no certificates")
    with pytest.raises(OSError, match="cert"):
        egress_client(EgressSettings())
