"""sandboxd: the server inside each sandbox.

Runs as PID 1 on the standard library, grpcio and protobuf alone.  Everything else in the sandbox is
untrusted, and so is all that comes out of it.
"""
