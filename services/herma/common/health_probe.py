"""`python -m herma.common.health_probe ADDRESS`: exit status 0 when a service there says that it serves.

For the health checks of containers, which run it every few seconds: it imports no more than it needs.
ADDRESS is `http://…` (a 2xx answer), or a gRPC address such as `unix:/path` or `host:port`.  Several are
all to serve.
"""

from __future__ import annotations

import http.client
import sys
from urllib.parse import urlsplit

_SECONDS = 3.0

# A probe before may have failed: its pause before the next try is none of ours.
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


def problem(address: str) -> str:
    """Why the service at this address does not serve; empty when it does."""
    return _http_problem(address) if address.startswith("http://") else _grpc_problem(address)


def _http_problem(address: str) -> str:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_SECONDS)
    try:
        connection.request("GET", parts.path or "/")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{address} does not answer: {error}"
    finally:
        connection.close()
    return "" if 200 <= status < 300 else f"{address} answers {status}"


def _grpc_problem(address: str) -> str:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(address, options=_OWN_CONNECTION) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=_SECONDS
            )
        except grpc.RpcError as error:
            return f"{address} does not answer: {error}"
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        return ""
    return f"{address} says {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}"


def main() -> None:
    """Checks the addresses of the command line."""
    if not sys.argv[1:]:
        sys.exit("give an address")
    problems = [text for text in map(problem, sys.argv[1:]) if text]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
