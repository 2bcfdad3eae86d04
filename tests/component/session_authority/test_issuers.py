"""Issuers: a token's bearer is a principal of the one tenant that accepts it, with the role it gives."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.component.session_authority.authority import Authority, Owner

from herma.common.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unauthenticated,
)
from herma.session_authority.domain.issuer import Issuer, IssuerTerms, issuer_terms
from herma.session_authority.domain.principal import PrincipalChange
from herma.session_authority.domain.rights import SCOPES_OF, Role
from herma.session_authority.store.callers import Claims

URL = "https://login.example.com"


def terms(default: str = "member", audience: str = "herma", **roles: str) -> IssuerTerms:
    return issuer_terms(URL, audience, [], "groups" if roles else "", roles, default)


def claims(subject: str = "kim", *groups: str, name: str = "Kim") -> Claims:
    return Claims(subject, name, groups)


async def accepted(authority: Authority, owner: Owner, of: IssuerTerms) -> tuple[UUID, Issuer]:
    made = await authority.issuers.register(owner.caller, of)
    tenant, found = await authority.issuers.find(of.issuer, ["elsewhere", of.audience])
    assert (tenant, found) == (owner.caller.tenant_id, made)
    return tenant, made


async def test_a_bearer_becomes_one_principal(authority: Authority) -> None:
    owner = await authority.owner()
    tenant, issuer = await accepted(authority, owner, terms())
    caller, scopes = await authority.callers.enter(tenant, issuer.id, claims())
    assert set(scopes) == SCOPES_OF[Role.MEMBER]
    again, _ = await authority.callers.enter(tenant, issuer.id, claims(name="Kim again"))
    assert again == caller
    other, _ = await authority.callers.enter(tenant, issuer.id, claims("alex"))
    assert other != caller
    found = await authority.principals.get(owner.caller, caller.principal_id)
    assert (found.issuer, found.subject, found.name, found.kind) == (URL, "kim", "Kim again", "user")
    me = await authority.callers.who_am_i(caller)
    assert (me.tenant.name, me.principal, me.key) == ("acme", found, None)


async def test_groups_decide_the_role_at_every_entry(authority: Authority) -> None:
    owner = await authority.owner()
    tenant, issuer = await accepted(authority, owner, terms("viewer", ops="operator", boss="admin"))
    for groups, role in (
        (("ops", "boss", "other"), Role.ADMIN),
        (("ops",), Role.OPERATOR),
        ((), Role.VIEWER),
    ):
        _, scopes = await authority.callers.enter(tenant, issuer.id, claims("kim", *groups))
        assert set(scopes) == SCOPES_OF[role]


async def test_without_a_mapping_the_role_is_managed_here(authority: Authority) -> None:
    owner = await authority.owner()
    tenant, issuer = await accepted(authority, owner, terms("viewer"))
    caller, _ = await authority.callers.enter(tenant, issuer.id, claims())
    await authority.principals.change(owner.caller, caller.principal_id, PrincipalChange(role=Role.ADMIN))
    _, scopes = await authority.callers.enter(tenant, issuer.id, claims())
    assert set(scopes) == SCOPES_OF[Role.ADMIN]


async def test_who_is_in_no_group_is_refused_without_a_default(authority: Authority) -> None:
    owner = await authority.owner()
    tenant, issuer = await accepted(authority, owner, terms("", ops="operator"))
    before = await authority.everything()
    with pytest.raises(Unauthenticated):
        await authority.callers.enter(tenant, issuer.id, claims("kim", "other"))
    assert await authority.everything() == before
    await authority.callers.enter(tenant, issuer.id, claims("kim", "ops"))
    with pytest.raises(Unauthenticated):
        await authority.callers.enter(tenant, issuer.id, claims("kim"))


async def test_the_disabled_and_the_issuer_that_is_gone_are_refused(authority: Authority) -> None:
    owner = await authority.owner()
    tenant, issuer = await accepted(authority, owner, terms())
    caller, _ = await authority.callers.enter(tenant, issuer.id, claims())
    disabled = PrincipalChange(disabled=True)
    await authority.principals.change(owner.caller, caller.principal_id, disabled)
    with pytest.raises(Unauthenticated):
        await authority.callers.enter(tenant, issuer.id, claims())
    for _ in range(2):
        await authority.issuers.remove(owner.caller, issuer.id)
    with pytest.raises(Unauthenticated):
        await authority.callers.enter(tenant, issuer.id, claims("alex"))
    with pytest.raises(NotFound):
        await authority.issuers.find(URL, ["herma"])


async def test_a_provider_cannot_take_a_tenants_last_owner(authority: Authority) -> None:
    owner = await authority.owner()
    tenant, issuer = await accepted(authority, owner, terms("viewer", boss="owner"))
    caller, _ = await authority.callers.enter(tenant, issuer.id, claims("kim", "boss"))
    kim = Owner(caller, "")
    await authority.principals.change(
        kim.caller, owner.caller.principal_id, PrincipalChange(disabled=True)
    )
    _, scopes = await authority.callers.enter(tenant, issuer.id, claims("kim"))
    assert set(scopes) == SCOPES_OF[Role.OWNER]


async def test_an_issuer_serves_one_tenant(authority: Authority) -> None:
    owner = await authority.owner()
    stranger = await authority.owner("other")
    tenant, issuer = await accepted(authority, owner, terms())
    before = await authority.everything()
    with pytest.raises(AlreadyExists):
        await authority.issuers.register(stranger.caller, terms())
    with pytest.raises(Unauthenticated):
        await authority.callers.enter(stranger.caller.tenant_id, issuer.id, claims())
    await authority.issuers.remove(stranger.caller, issuer.id)
    assert await authority.everything() == before
    # The same provider with another audience is another tenant's affair.
    theirs, _ = await accepted(authority, stranger, terms(audience="other"))
    assert theirs != tenant
    with pytest.raises(NotFound):
        # A token for both does not say whose it is.
        await authority.issuers.find(URL, ["herma", "other"])


async def test_an_admin_cannot_let_owners_in(authority: Authority) -> None:
    owner = await authority.owner()
    admin = await authority.colleague(owner, Role.ADMIN)
    for unfit in (terms("owner"), terms("viewer", boss="owner")):
        with pytest.raises(PermissionDenied):
            await authority.issuers.register(admin.caller, unfit)
    await authority.issuers.register(admin.caller, terms("admin"))


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"issuer": "ftp://x"}, "issuer"),
        ({"issuer": "https://u:p@x"}, "issuer"),
        ({"issuer": "https://x/?q=1"}, "issuer"),
        ({"audience": ""}, "audience"),
        ({"algorithms": ["HS256"]}, "algorithms"),
        ({"algorithms": ["none"]}, "algorithms"),
        ({"roles": {"a": "admin"}}, "role_claim"),
        ({"default_role": ""}, "default_role"),
        ({"default_role": "god"}, "role"),
    ],
)
def test_malformed_terms_are_refused(fields: dict[str, object], wrong: str) -> None:
    good = {
        "issuer": URL,
        "audience": "herma",
        "algorithms": [],
        "role_claim": "",
        "roles": {},
        "default_role": "member",
    }
    with pytest.raises(InvalidArgument) as caught:
        issuer_terms(**{**good, **fields})
    assert list(caught.value.fields) == [wrong]
