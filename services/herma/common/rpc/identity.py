"""Service identity until mutual TLS comes: an HMAC per call under a key of (caller, callee).

The metadata entry `herma-service` is `v1.<caller>.<unix seconds>.<hex HMAC-SHA-256>` over caller,
callee, time and full method.  A pair's key is known to its two services alone, so a service that is
broken into can speak for itself only.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping

from herma.common.errors import Unauthenticated

SERVICE_KEY = "herma-service"

_WINDOW = 120


class ServiceKeys:
    """The pair keys that one service holds, as `caller>callee` to key."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = {pair: key.encode() for pair, key in keys.items()}

    def key(self, caller: str, callee: str) -> bytes:
        """The key of a pair.

        Raises:
            Unauthenticated: when this service does not hold it.
        """
        try:
            return self._keys[f"{caller}>{callee}"]
        except KeyError as error:
            raise Unauthenticated(f"no service key for {caller} calling {callee}") from error


class ServiceIdentity:
    """Proves and checks who calls.

    Args:
        name: This service.
        keys: The pair keys that it holds.
    """

    def __init__(self, name: str, keys: ServiceKeys, now: Callable[[], float] = time.time) -> None:
        self.name = name
        self._keys = keys
        self._now = now

    def prove(self, callee: str, method: str) -> str:
        """The metadata value for one call of `method` (`/package.Service/Method`) on `callee`."""
        stamp = str(int(self._now()))
        return f"v1.{self.name}.{stamp}.{self._mac(self.name, callee, stamp, method)}"

    def check(self, proof: str, method: str) -> str:
        """The name of the caller.

        Raises:
            Unauthenticated: for a proof that is missing, forged, for another method, or too old.
        """
        version, _, rest = proof.partition(".")
        caller, _, rest = rest.partition(".")
        stamp, _, mac = rest.partition(".")
        if version != "v1" or not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
            raise Unauthenticated("the service identity is missing or malformed")
        if not hmac.compare_digest(mac.encode(), self._mac(caller, self.name, stamp, method).encode()):
            raise Unauthenticated("the service identity is not valid")
        if abs(self._now() - int(stamp)) > _WINDOW:
            raise Unauthenticated("the service identity is too old; are the clocks in step?")
        return caller

    def _mac(self, caller: str, callee: str, stamp: str, method: str) -> str:
        text = "\n".join((caller, callee, stamp, method))
        return hmac.new(self._keys.key(caller, callee), text.encode(), hashlib.sha256).hexdigest()
