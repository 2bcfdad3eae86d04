"""Takes secrets out of text that leaves the platform or lands in a log.

A guard against accidents, not against an adversary: it knows the shapes of common credentials.  It
prefers to hide too much.
"""

from __future__ import annotations

import re

_MARK = "[redacted]"

# Shapes that are secrets wherever they stand.
_TOKENS = re.compile(
    r"""(?x)
    -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    | \bherma_[A-Za-z0-9]{6,}_[A-Za-z0-9_-]{16,}
    | \bsk-[A-Za-z0-9_-]{16,}
    | \b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bxox[abeprs]-[A-Za-z0-9-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_-]{30,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}
    """,
    re.DOTALL,
)
# user:password@host in a URL or connection string.
_URL_PASSWORD = re.compile(r"(?P<head>[a-z][a-z0-9+.-]*://[^\s:/@]*):(?P<secret>[^\s@/]+)@", re.I)
_BEARER = re.compile(r"(?P<head>\b(?:bearer|basic)\s+)(?P<secret>[A-Za-z0-9._~+/=-]{8,})", re.I)
# name = value where the name says that the value is secret.
_NAMED = re.compile(
    r"""(?ix)
    (?P<head>\b[\w.-]*(?:password|passwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token
      |private[_-]?key|client[_-]?secret|authorization)[\w.-]*["']?\s*[:=]\s*["']?)
    (?P<secret>[^\s"',;&]{4,})
    """
)


def redact(text: str) -> str:
    """The text with everything that looks like a credential replaced by `[redacted]`."""
    text = _TOKENS.sub(_MARK, text)
    text = _URL_PASSWORD.sub(rf"\g<head>:{_MARK}@", text)
    text = _BEARER.sub(rf"\g<head>{_MARK}", text)
    return _NAMED.sub(rf"\g<head>{_MARK}", text)
