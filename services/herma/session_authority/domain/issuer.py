"""Issuers of OpenID Connect tokens: whose tokens a tenant accepts, and as what.

Source: OpenID Connect Core 1.0 (ID tokens) and RFC 9068 (access tokens in JWT form).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit
from uuid import UUID

from herma.common.errors import InvalidArgument
from herma.common.lines import is_line
from herma.session_authority.domain.rights import Role, parse_role

MAX_URL = 500
MAX_AUDIENCE = 255
MAX_CLAIM = 100
MAX_GROUP = 200
MAX_ROLES = 100
# Asymmetric ones only (RFC 7518, RFC 8037): who can check a token cannot make one.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
DEFAULT_ALGORITHMS = ("RS256", "ES256")


@dataclass(frozen=True, slots=True)
class IssuerTerms:
    """What is accepted, and as what.

    Attributes:
        issuer: URL, as in the claim `iss`.
        audience: As in the claim `aud`.
        algorithms: Of signatures; no other is accepted, whatever a token says of itself.
        role_claim: The claim that names a principal's groups; a dot leads into an object.
        roles: From a group to a role.
        default_role: Of who is in no mapped group; None refuses.
    """

    issuer: str
    audience: str
    algorithms: Sequence[str]
    role_claim: str
    roles: Mapping[str, Role]
    default_role: Role | None

    @property
    def given_roles(self) -> Sequence[Role]:
        """Every role that a token can give."""
        given = set(self.roles.values())
        return sorted(given | {self.default_role} if self.default_role else given)


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer that a tenant accepts."""

    id: UUID
    terms: IssuerTerms
    created_at: datetime


def issuer_terms(
    issuer: str,
    audience: str,
    algorithms: Sequence[str],
    role_claim: str,
    roles: Mapping[str, str],
    default_role: str,
) -> IssuerTerms:
    """Terms from what a caller sent.

    Raises:
        InvalidArgument: naming each field that does not fit.
    """
    wrong: dict[str, str] = {}
    parts = urlsplit(issuer)
    if (
        len(issuer) > MAX_URL
        or parts.scheme not in ("https", "http")
        or not parts.hostname
        or parts.username is not None
        or parts.query
        or parts.fragment
    ):
        wrong["issuer"] = "a URL without user, query and fragment"
    if not audience or len(audience) > MAX_AUDIENCE or not is_line(audience):
        wrong["audience"] = f"1 to {MAX_AUDIENCE} printable characters"
    unknown = sorted(set(algorithms) - set(ALGORITHMS))
    if unknown:
        wrong["algorithms"] = "some of " + ", ".join(ALGORITHMS)
    if len(role_claim) > MAX_CLAIM or not is_line(role_claim):
        wrong["role_claim"] = f"at most {MAX_CLAIM} printable characters"
    if len(roles) > MAX_ROLES or any(not 0 < len(group) <= MAX_GROUP for group in roles):
        wrong["roles"] = f"at most {MAX_ROLES} groups of 1 to {MAX_GROUP} characters"
    if roles and not role_claim:
        wrong["role_claim"] = "names where the groups are"
    if not roles and not default_role:
        wrong["default_role"] = "must be there without `roles`, or nobody could enter"
    if wrong:
        raise InvalidArgument("the issuer is malformed", fields=wrong)
    return IssuerTerms(
        issuer,
        audience,
        tuple(algorithms) or DEFAULT_ALGORITHMS,
        role_claim,
        {group: parse_role(role) for group, role in roles.items()},
        parse_role(default_role) if default_role else None,
    )
