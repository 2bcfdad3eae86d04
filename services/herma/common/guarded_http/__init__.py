"""The one way to URLs that a tenant, a document or a model names."""

from herma.common.guarded_http.addresses import AddressPolicy
from herma.common.guarded_http.client import GuardedClient, Reading, Reply
from herma.common.guarded_http.credential import Credential
from herma.common.guarded_http.egress import egress_client
from herma.common.guarded_http.failures import (
    PeerFailure,
    PeerTimeout,
    PeerUnreachable,
    PeerUntrusted,
    ReplyTooLarge,
    ReplyUnusable,
)
from herma.common.guarded_http.resolver import Resolver, SystemResolver
from herma.common.guarded_http.target import Origin, Target, UrlRefused

__all__ = [
    "AddressPolicy",
    "Credential",
    "GuardedClient",
    "Origin",
    "PeerFailure",
    "PeerTimeout",
    "PeerUnreachable",
    "PeerUntrusted",
    "Reading",
    "Reply",
    "ReplyTooLarge",
    "ReplyUnusable",
    "Resolver",
    "SystemResolver",
    "Target",
    "UrlRefused",
    "egress_client",
]
