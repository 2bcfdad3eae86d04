"""One request of a chain of redirects, and the one that follows it.

Source: RFC 9110 §15.4, stricter where it leaves a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from herma.common.guarded_http.failures import ReplyUnusable
from herma.common.guarded_http.headers import Headers
from herma.common.guarded_http.target import Target, UrlRefused

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Whatever else the caller says may be meant for the first origin only.
_FOR_ANYBODY: Final = frozenset({"accept", "accept-language", "cache-control", "range", "user-agent"})


@dataclass(frozen=True, slots=True)
class Step:
    """A request, before our own headers and the credential.  `number` counts from 0."""

    number: int
    method: str
    target: Target
    headers: Headers
    body: bytes

    def after(self, status: int, locations: Sequence[str]) -> Step | None:
        """The step that an answer asks for; None when it is the last.

        Args:
            locations: Its headers `Location`.

        Raises:
            UrlRefused: when the way on leads out of TLS, carries a body to another origin, or is no URL.
            ReplyUnusable: when it names several ways.
        """
        if status not in _REDIRECTS or not locations:
            return None
        if len(set(locations)) > 1:
            raise ReplyUnusable("the answer redirects to several places")
        target = self.target.joined(locations[0])
        if self.target.origin.scheme == "https" and target.origin.scheme != "https":
            raise UrlRefused("a redirect must not lead from https to http")
        method, body = self.method, self.body
        if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
            method, body = "GET", b""
        headers = self.headers
        if method != self.method:
            headers = [header for header in headers if not header[0].startswith("content-")]
        if target.origin != self.target.origin:
            if body:
                raise UrlRefused("a redirect must not carry a body to another origin")
            headers = [header for header in headers if header[0] in _FOR_ANYBODY]
        return Step(self.number + 1, method, target, headers, body)
