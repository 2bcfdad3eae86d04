"""The bodies of identities: who acts, what for, and with which keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool

from herma.api.identity.v1 import identity_pb2
from herma.api.issuer.v1 import issuer_pb2
from herma.api.principal.v1 import principal_pb2
from herma.gateway.bodies import Label, Line, Moment, Request, Text, Whole
from herma.gateway.wire import when

RoleName = Literal["owner", "admin", "operator", "member", "viewer"]
RightName = Literal["use", "edit", "approve"]

ScopeName = Literal[
    "agent",
    "approve",
    "audit",
    "keys",
    "platform",
    "principals",
    "profiles",
    "read",
    "routes",
    "tenant",
    "usage",
]
AlgorithmName = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
GroupName = Annotated[Text, Field(min_length=1, max_length=200)]
# No user, query or fragment.
_ISSUER = r"^https?://[A-Za-z0-9.-]{1,250}(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$"

_MONTH = 30 * 86_400
# Somebody must be able to enter, and who is mapped must be found.
_MAPPED: dict[str, JsonValue] = {
    "required": ["roles", "role_claim"],
    "properties": {"roles": {"minProperties": 1}, "role_claim": {"minLength": 1}},
}
_UNMAPPED: dict[str, JsonValue] = {
    "required": ["default_role"],
    "properties": {"roles": {"maxProperties": 0}, "default_role": {"type": "string"}},
}


class NewTenant(Request):
    """Makes a tenant."""

    name: Label


class TenantBody(BaseModel):
    """A tenant."""

    id: str
    name: str
    created_at: datetime | None


class TenantPage(BaseModel):
    """Tenants by name."""

    items: list[TenantBody]
    next_page_token: str


class NewTenantBody(BaseModel):
    """A tenant that was just made."""

    id: str
    name: str


class CreatedTenant(BaseModel):
    """A new tenant; `key` is its owner's and shown only here."""

    tenant: NewTenantBody
    key: str


class NewKey(Request):
    """Makes a key."""

    name: Line = Field("", max_length=200)
    scopes: list[ScopeName] = Field(
        default_factory=list, max_length=20, description="Empty for all that you hold."
    )
    expires_at: Moment | None = None
    principal_id: Text = Field("", max_length=64, description="For whom; empty for yourself.")


class Rotation(Request):
    """Replaces a key."""

    overlap_seconds: Whole = Field(
        3600, ge=0, le=_MONTH, description="How long the old key goes on working."
    )


class KeyBody(BaseModel):
    """A key without its secret.  `last_used_at` is to the minute."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    created_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    principal_id: str
    created_by: str


class CreatedKey(KeyBody):
    """A new key; `secret` is shown only here."""

    secret: str


class RotatedKey(CreatedKey):
    """A new key in the place of `rotated`; `secret` is shown only here."""

    rotated: KeyBody


class KeyPage(BaseModel):
    """Keys, oldest first."""

    items: list[KeyBody]
    next_page_token: str


class NewPrincipal(Request):
    """Makes a service account."""

    subject: Label = Field(description="1 to 63 of a-z, 0-9 and -.")
    name: Line = Field("", max_length=200)
    role: RoleName = "member"


class PrincipalChange(Request):
    """Changes a principal.  What is left out stays."""

    name: Line | None = Field(None, max_length=200)
    role: RoleName | None = None
    disabled: StrictBool | None = None


class PrincipalBody(BaseModel):
    """Who acts: tenant, issuer and subject.  `kind` is `user` or `service`."""

    id: str
    issuer: str
    subject: str
    name: str
    kind: str
    role: str
    created_at: datetime | None
    disabled_at: datetime | None
    version: int


class PrincipalPage(BaseModel):
    """Principals, oldest first."""

    items: list[PrincipalBody]
    next_page_token: str


class NewGrant(Request):
    """Gives a right on a profile."""

    principal_id: Text = Field(max_length=64)
    profile: Line = Field(max_length=200)
    right: RightName = "use"


class GrantBody(BaseModel):
    """A right of a principal on a profile."""

    id: str
    principal_id: str
    profile: str
    right: str
    granted_by: str
    created_at: datetime | None


class GrantPage(BaseModel):
    """Grants, oldest first."""

    items: list[GrantBody]
    next_page_token: str


class NewIssuer(Request):
    """Accepts an OpenID Connect issuer's tokens."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [_MAPPED, _UNMAPPED],
            "examples": [
                {
                    "issuer": "https://login.example.com",
                    "audience": "herma",
                    "role_claim": "groups",
                    "roles": {"platform-team": "admin"},
                }
            ],
        }
    )

    issuer: str = Field(max_length=500, pattern=_ISSUER, description="URL, as in the claim `iss`.")
    audience: Line = Field(min_length=1, max_length=255, description="As in the claim `aud`.")
    algorithms: list[AlgorithmName] = Field(
        default_factory=list, max_length=10, description="Of signatures; empty for RS256 and ES256."
    )
    role_claim: Line = Field(
        "", max_length=100, description="The claim with the groups; a dot leads into an object."
    )
    roles: dict[GroupName, RoleName] = Field(
        default_factory=dict, max_length=100, description="From a group to a role."
    )
    default_role: RoleName | None = Field(
        None, description="Of who is in no mapped group; without it they are refused."
    )


class IssuerBody(BaseModel):
    """An issuer whose tokens are accepted."""

    id: str
    issuer: str
    audience: str
    algorithms: list[str]
    role_claim: str
    roles: dict[str, str]
    default_role: str | None
    created_at: datetime | None


class IssuerPage(BaseModel):
    """Issuers, oldest first."""

    items: list[IssuerBody]
    next_page_token: str


class WhoAmI(BaseModel):
    """Who you are.  `key` is null for a token; `scopes` are what you may now."""

    tenant: TenantBody
    principal: PrincipalBody
    key: KeyBody | None
    scopes: list[str]


def tenant_body(tenant: identity_pb2.Tenant) -> TenantBody:
    """A tenant."""
    return TenantBody(id=tenant.id, name=tenant.name, created_at=when(tenant.created_at))


def key_body(key: identity_pb2.Key) -> KeyBody:
    """A key."""
    return KeyBody(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        scopes=list(key.scopes),
        created_at=when(key.created_at),
        expires_at=when(key.expires_at),
        revoked_at=when(key.revoked_at),
        last_used_at=when(key.last_used_at),
        principal_id=key.principal_id,
        created_by=key.created_by,
    )


def principal_body(principal: principal_pb2.Principal) -> PrincipalBody:
    """A principal."""
    return PrincipalBody(
        id=principal.id,
        issuer=principal.issuer,
        subject=principal.subject,
        name=principal.name,
        kind=principal.kind,
        role=principal.role,
        created_at=when(principal.created_at),
        disabled_at=when(principal.disabled_at),
        version=principal.version,
    )


def grant_body(grant: principal_pb2.Grant) -> GrantBody:
    """A grant."""
    return GrantBody(
        id=grant.id,
        principal_id=grant.principal_id,
        profile=grant.profile,
        right=grant.right,
        granted_by=grant.granted_by,
        created_at=when(grant.created_at),
    )


def issuer_body(issuer: issuer_pb2.Issuer) -> IssuerBody:
    """An issuer."""
    return IssuerBody(
        id=issuer.id,
        issuer=issuer.issuer,
        audience=issuer.audience,
        algorithms=list(issuer.algorithms),
        role_claim=issuer.role_claim,
        roles=dict(issuer.roles),
        default_role=issuer.default_role or None,
        created_at=when(issuer.created_at),
    )
