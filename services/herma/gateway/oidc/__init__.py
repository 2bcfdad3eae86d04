"""Bearer tokens of OpenID Connect issuers."""
