"""Addresses: judged by where packets would go."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herma.common.guarded_http import AddressPolicy

PUBLIC = AddressPolicy()
PRIVATE = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
]


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::1",
        "2606:4700::5efe:a9fe:a9fe",
        "2606:4700::200:5efe:7f00:1",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ],
)
def test_what_is_inside_is_not_reached(text: str) -> None:
    assert not PUBLIC.allows(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1111"]
)
def test_what_is_public_is_reached(text: str) -> None:
    assert PUBLIC.allows(ipaddress.ip_address(text))


@given(st.sampled_from(PRIVATE).flatmap(lambda network: st.ip_addresses(network=network)))
def test_no_wrapping_makes_a_private_address_public(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for wrapped in (
        (0xFFFF << 32) | number,
        number,
        (0xFFFF << 48) | number,
        (0x64FF9B << 96) | number,
        (0x2002 << 112) | (number << 80) | 1,
        (0x20010000 << 96) | (number ^ 0xFFFFFFFF),
        (0x26064700 << 96) | (0x5EFE << 32) | number,
    ):
        assert not PUBLIC.allows(ipaddress.IPv6Address(wrapped))


def test_the_operator_allows_networks_and_no_more() -> None:
    policy = AddressPolicy((ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("fd00:1::/32")))
    for text, allowed in (
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("fd00:1::5", True),
        ("fd00:2::5", False),
        ("169.254.169.254", False),
        ("1.1.1.1", True),
    ):
        assert policy.allows(ipaddress.ip_address(text)) is allowed
    assert policy.vouches_for(ipaddress.ip_address("10.1.2.3"))
    assert not policy.vouches_for(ipaddress.ip_address("1.1.1.1"))


@pytest.mark.parametrize(
    "text",
    ["1.1.1.1", "::ffff:1.1.1.1", "64:ff9b::101:101", "10.1.1.1", "2606:4700::1", "2606:4700::ffff:1"],
)
def test_the_operator_denies_networks_whatever_else_is_said(text: str) -> None:
    networks = ("10.0.0.0/8", "1.1.0.0/16", "2606:4700::/48")
    named = tuple(ipaddress.ip_network(network) for network in networks)
    address = ipaddress.ip_address(text)
    assert AddressPolicy(named).allows(address)
    for policy in (AddressPolicy((), named), AddressPolicy(named, named)):
        assert not policy.allows(address)
        assert not policy.vouches_for(address)


def test_an_allowed_network_is_reached_through_a_translator() -> None:
    policy = AddressPolicy((ipaddress.ip_network("10.1.0.0/16"),))
    assert policy.allows(ipaddress.ip_address("64:ff9b::a01:203"))
    assert not policy.allows(ipaddress.ip_address("64:ff9b::a02:203"))


@given(st.ip_addresses())
def test_public_is_at_most_what_the_registries_call_global(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if PUBLIC.allows(address):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_link_local


@pytest.mark.parametrize(
    ("port", "is_allowed"),
    [(80, True), (443, True), (1024, True), (8443, True), (65535, True)]
    + [(port, False) for port in (1, 22, 25, 53, 79, 81, 389, 442, 444, 465, 587, 1023)],
)
def test_ports_of_old_services_are_not_reached(port: int, is_allowed: bool) -> None:
    assert PUBLIC.allows_port(port) is is_allowed
