"""The guarded client as the operator set it up."""

from __future__ import annotations

import ssl

from herma.common.guarded_http.addresses import AddressPolicy
from herma.common.guarded_http.client import GuardedClient
from herma.common.settings import EgressSettings


def egress_client(settings: EgressSettings, *, plain_anywhere: bool = False) -> GuardedClient:
    """A client for URLs of tenants.

    Args:
        plain_anywhere: Also http, not only https, to public addresses.
    """
    tls = ssl.create_default_context()
    if settings.egress_ca_file is not None:
        tls.load_verify_locations(settings.egress_ca_file)
    policy = AddressPolicy(
        settings.egress_allowed_networks, settings.egress_denied_networks, settings.egress_port_ranges
    )
    return GuardedClient(policy, tls=tls, plain_anywhere=plain_anywhere)
