"""Certificates for tests."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import trustme


class Certificates:
    """An authority of our own."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.client = ssl.create_default_context()
        self.authority.configure_trust(self.client)

    def server(self, name: str, *, ended: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        now = datetime.now(UTC)
        until = now - timedelta(days=1) if ended else now + timedelta(days=1)
        self.authority.issue_cert(
            name, not_before=now - timedelta(days=2), not_after=until
        ).configure_cert(context)
        return context
