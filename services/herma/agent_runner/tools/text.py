"""Bytes from a sandbox as text for a model."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def readable(data: bytes) -> str:
    """UTF-8 where it is; other bytes and control characters are shown as the replacement character."""
    return _CONTROL.sub("�", data.decode("utf-8", "replace").replace("\r\n", "\n"))
