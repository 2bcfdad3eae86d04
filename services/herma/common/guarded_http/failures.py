"""How the other side of a request can fail us.

All are temporary as far as we can know, and say nothing of what is inside of the operator's network.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import httpcore

from herma.common.errors import HermaError, InvalidArgument, Unavailable


class PeerFailure(Unavailable):
    """The other side failed."""

    reason = "PEER_FAILED"


class PeerUnreachable(PeerFailure):
    """The other side cannot be reached; try again."""

    reason = "URL_UNREACHABLE"


class PeerTimeout(PeerFailure):
    """The other side does not answer in time; try again."""

    reason = "PEER_TIMEOUT"


class PeerUntrusted(PeerFailure):
    """The other side does not prove by TLS that it is who the URL names."""

    reason = "PEER_UNTRUSTED"


class ReplyTooLarge(PeerFailure):
    """The other side's answer is larger than allowed."""

    reason = "REPLY_TOO_LARGE"


class ReplyUnusable(PeerFailure):
    """The other side's answer is no HTTP, or encoded in a way that was not asked for."""

    reason = "REPLY_UNUSABLE"


@contextmanager
def peer_failures() -> Iterator[None]:
    """Raises what goes wrong with the other side as a `PeerFailure`.

    Nothing but calls of httpcore belongs inside: anybody else's `OSError` would be blamed on the peer.

    Raises:
        PeerFailure: instead of httpcore's errors.
        InvalidArgument: when we cannot send what we were given.
    """
    try:
        yield
    except HermaError:
        raise
    except httpcore.LocalProtocolError as error:
        raise InvalidArgument("this request cannot be sent") from error
    except (httpcore.RemoteProtocolError, httpcore.UnsupportedProtocol) as error:
        raise ReplyUnusable from error
    except (httpcore.TimeoutException, TimeoutError) as error:
        raise PeerTimeout from error
    except (httpcore.NetworkError, OSError) as error:
        raise _broken(error) from error


def _broken(error: Exception) -> PeerFailure:
    # httpcore wraps what TLS says, and its pool then raises that `from None`.
    cause = error if isinstance(error, ssl.SSLError) else error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        # OpenSSL's own words: "certificate has expired", "Hostname mismatch, …".
        return PeerUntrusted(f"the other side's certificate is not accepted: {cause.verify_message}")
    if isinstance(cause, ssl.SSLError):
        return PeerUntrusted()
    return PeerUnreachable()
