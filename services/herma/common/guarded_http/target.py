"""A URL taken apart: nothing in it can mean something else to somebody who reads it later.

Sources: RFC 3986; the WHATWG URL standard for what browsers and libraries take for an IPv4 address.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit

import idna

from herma.common.errors import HermaError, Kind
from herma.common.guarded_http.addresses import Address

MAX_URL: Final = 8 * 1024

_PORTS: Final = {"https": 443, "http": 80}
# The last label decides whether parsers take the host for an IPv4 address.
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:@%]+)(?::(?P<port>[0-9]{0,5}))?")
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f-\x9f\\^`{|}<>\"]")


class UrlRefused(HermaError):
    """This URL cannot be reached from here."""

    kind = Kind.INVALID
    reason = "URL_REFUSED"


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port (RFC 6454).  An IPv6 address has no brackets here."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """As a URL without a path."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """As the header `Host` has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if _PORTS[self.scheme] == self.port else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes.  `address` is set when the host is one; `path` has the query."""

    origin: Origin
    path: str
    address: Address | None

    @property
    def url(self) -> str:
        """The URL as it is requested."""
        return f"{self.origin}{self.path}"

    def joined(self, reference: str) -> Target:
        """Where a reference, such as a redirect's `Location`, leads from here.

        Raises:
            UrlRefused: as `parse_target`.
        """
        _check_text(reference)
        return parse_target(urljoin(self.url, reference))


def parse_target(url: str) -> Target:
    """Takes a URL apart.

    Raises:
        UrlRefused: for what is no URL of http or https, names a user, or spells its host in a way that
            others read differently.
    """
    _check_text(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UrlRefused("this is no URL") from error
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise UrlRefused("only https and http URLs can be reached")
    if "@" in parts.netloc:
        raise UrlRefused("a URL must not name a user")
    # Not `parts.hostname`: it takes what stands between brackets, whatever stands after them.  No `%`:
    # an address must not name a zone.
    authority = _AUTHORITY.fullmatch(parts.netloc)
    if authority is None:
        raise UrlRefused("the URL names no host, or none that can be reached")
    port = int(authority["port"] or _PORTS[scheme])
    if not 1 <= port <= 65535:
        raise UrlRefused("the URL's port is none")
    host, address = _host(authority["host"].strip("[]"), is_bracketed=authority["host"].startswith("["))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.startswith("/"):
        raise UrlRefused("this is no URL")
    return Target(Origin(scheme, host, port), path, address)


def _check_text(url: str) -> None:
    if len(url) > MAX_URL:
        raise UrlRefused("the URL is too long")
    if not url.isascii() or _UNFIT.search(url):
        # An international name is written in its ASCII form; everything else is percent-encoded.
        raise UrlRefused("the URL has characters that a URL cannot have")


def _host(text: str, *, is_bracketed: bool) -> tuple[str, Address | None]:
    if is_bracketed:
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError as error:
            raise UrlRefused("this is no address") from error
        return str(address), address
    if _NUMERIC.fullmatch(text):
        try:
            plain = ipaddress.IPv4Address(text)
        except ValueError as error:
            # Decimal, hexadecimal, octal and short spellings: libraries disagree about them.
            raise UrlRefused("an address is spelled as four decimal numbers") from error
        return str(plain), plain
    return _name(text.lower()), None


def _name(text: str) -> str:
    if text.endswith(".") or len(text) > 253:
        raise UrlRefused("this is no host name")
    try:
        encoded: str = idna.encode(text).decode() if "xn--" in text else text
        labels = encoded.split(".")
    except idna.IDNAError as error:
        raise UrlRefused("this is no host name") from error
    if not all(re.fullmatch(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", label) for label in labels):
        raise UrlRefused("this is no host name")
    return encoded
