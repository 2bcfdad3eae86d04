"""gRPC between services: servers with guards, peers with deadlines, one mapping of errors."""

from herma.common.rpc.caller import current_caller
from herma.common.rpc.identity import ServiceIdentity, ServiceKeys
from herma.common.rpc.peer import Peer
from herma.common.rpc.server import RpcServer, ServedApi

__all__ = ["Peer", "RpcServer", "ServedApi", "ServiceIdentity", "ServiceKeys", "current_caller"]
