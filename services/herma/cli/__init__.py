"""The command line `herma`."""

import os

# gRPC reads these when it is loaded: its notes on forking are not for people at a terminal.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
