"""Identities: protos to domain values and back."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from herma.api.identity.v1 import identity_pb2
from herma.api.issuer.v1 import issuer_pb2
from herma.api.ledger.v1 import ledger_pb2
from herma.api.principal.v1 import principal_pb2
from herma.common.errors import InvalidArgument
from herma.common.ids import parse_id
from herma.session_authority.domain.admission import check_line
from herma.session_authority.domain.issuer import Issuer, IssuerTerms, issuer_terms
from herma.session_authority.domain.keys import ApiKey
from herma.session_authority.domain.model import Caller
from herma.session_authority.domain.principal import (
    MAX_NAME,
    MAX_SUBJECT,
    Grant,
    Principal,
    PrincipalChange,
)
from herma.session_authority.domain.rights import parse_role
from herma.session_authority.store.callers import Claims
from herma.session_authority.store.tenants import Tenant
from herma.session_authority.wire import timestamp

_MAX_GROUPS = 1_000


def optional_id(text: str, field: str) -> UUID | None:
    """An id that may be left out.

    Raises:
        InvalidArgument: naming `field`.
    """
    return parse_id(text, field) if text else None


def caller_message(caller: Caller) -> ledger_pb2.Caller:
    """A caller."""
    return ledger_pb2.Caller(
        tenant_id=str(caller.tenant_id),
        principal_id=str(caller.principal_id),
        key_id=str(caller.key_id or ""),
    )


def tenant_message(tenant: Tenant) -> identity_pb2.Tenant:
    """A tenant."""
    return identity_pb2.Tenant(
        id=str(tenant.id), name=tenant.name, created_at=timestamp(tenant.created_at)
    )


def key_message(key: ApiKey) -> identity_pb2.Key:
    """A key without its secret."""
    return identity_pb2.Key(
        id=str(key.id),
        name=key.name,
        prefix=key.prefix,
        scopes=key.scopes,
        created_at=timestamp(key.created_at),
        expires_at=timestamp(key.expires_at),
        revoked_at=timestamp(key.revoked_at),
        principal_id=str(key.principal_id),
        created_by=str(key.created_by),
        last_used_at=timestamp(key.last_used_at),
    )


def principal_message(principal: Principal) -> principal_pb2.Principal:
    """A principal."""
    return principal_pb2.Principal(
        id=str(principal.id),
        issuer=principal.issuer,
        subject=principal.subject,
        name=principal.name,
        kind=principal.kind,
        role=principal.role,
        created_at=timestamp(principal.created_at),
        disabled_at=timestamp(principal.disabled_at),
        version=principal.version,
    )


def change_of(request: principal_pb2.UpdatePrincipalRequest) -> PrincipalChange:
    """What to change.

    Raises:
        InvalidArgument: naming what does not fit.
    """
    if request.expected_version < 0:
        raise InvalidArgument("no such version", fields={"expected_version": "0 or more"})
    name = request.name if request.HasField("name") else None
    check_line(name or "", "name", MAX_NAME)
    return PrincipalChange(
        name,
        parse_role(request.role) if request.HasField("role") else None,
        request.disabled if request.HasField("disabled") else None,
        request.expected_version,
    )


def grant_message(grant: Grant) -> principal_pb2.Grant:
    """A grant."""
    return principal_pb2.Grant(
        id=str(grant.id),
        principal_id=str(grant.principal_id),
        profile=grant.profile,
        right=grant.right,
        granted_by=str(grant.granted_by),
        created_at=timestamp(grant.created_at),
    )


def issuer_message(issuer: Issuer) -> issuer_pb2.Issuer:
    """An issuer."""
    terms = issuer.terms
    return issuer_pb2.Issuer(
        id=str(issuer.id),
        issuer=terms.issuer,
        audience=terms.audience,
        algorithms=terms.algorithms,
        role_claim=terms.role_claim,
        roles={group: str(role) for group, role in terms.roles.items()},
        default_role=terms.default_role or "",
        created_at=timestamp(issuer.created_at),
    )


def terms_of(message: issuer_pb2.Issuer) -> IssuerTerms:
    """What is to be accepted.

    Raises:
        InvalidArgument: naming each field that does not fit.
    """
    return issuer_terms(
        message.issuer,
        message.audience,
        list(message.algorithms),
        message.role_claim,
        dict(message.roles),
        message.default_role,
    )


def claims_of(request: identity_pb2.EnterRequest) -> Claims:
    """What a token says of its bearer.

    Raises:
        InvalidArgument: naming what does not fit.
    """
    if not request.subject:
        raise InvalidArgument("a token has a subject", fields={"subject": "must not be empty"})
    check_line(request.subject, "subject", MAX_SUBJECT)
    groups: Sequence[str] = list(request.groups)[:_MAX_GROUPS]
    name = "".join(char for char in request.name if char.isprintable())[:MAX_NAME]
    return Claims(request.subject, name, groups)
