"""The one way to URLs that a tenant, a document or a model names."""

from herma.common.guarded_http.addresses import AddressPolicy
from herma.common.guarded_http.client import Credential, GuardedClient, Reading, Reply
from herma.common.guarded_http.target import Origin, Target, UrlRefused

__all__ = [
    "AddressPolicy",
    "Credential",
    "GuardedClient",
    "Origin",
    "Reading",
    "Reply",
    "Target",
    "UrlRefused",
]
