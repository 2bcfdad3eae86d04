"""What proves to one origin who asks."""

from __future__ import annotations

from dataclasses import dataclass, field

from herma.common.guarded_http.headers import check_credential
from herma.common.guarded_http.target import Origin, parse_target


@dataclass(frozen=True, slots=True)
class Credential:
    """A header that goes to one origin only: to no other, neither by a redirect nor by another URL.

    Raises:
        InvalidArgument: for a header that cannot be sent, or that would change what the request means.
    """

    origin: Origin
    header: str
    value: str = field(repr=False)

    def __post_init__(self) -> None:
        """Checks the header."""
        check_credential(self.header, self.value)

    @classmethod
    def for_url(cls, url: str, header: str, value: str) -> Credential:
        """A credential for the origin of a URL.

        Raises:
            UrlRefused: when it is no URL that can be requested.
            InvalidArgument: as for any credential.
        """
        return cls(parse_target(url).origin, header, value)
