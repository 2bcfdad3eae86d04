"""`python -m herma.sandboxd`: the only place that reads the environment and constructs."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import tempfile
import uuid

import grpc

import herma
from herma.api.sandboxd.v1 import sandboxd_pb2_grpc
from herma.sandboxd.commands import CommandTable
from herma.sandboxd.link import keep_linked
from herma.sandboxd.process_tree import kill_descendants
from herma.sandboxd.reaper import Reaper
from herma.sandboxd.servicer import SandboxdServicer
from herma.sandboxd.workspace import Workspace

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_MAX_MESSAGE = 8 * 1024 * 1024


def _harden(parent: str) -> None:
    """Processes of the same user may not look into this one; orphans come to it.

    Args:
        parent: Pid of the process that it shall not outlive; empty for none.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if parent:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit(1)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def _serve(outside: str, top: str) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    if os.getpid() != 1:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
    reaper = Reaper()
    reaper.start()
    workspace = Workspace(os.fsencode(top))
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", _MAX_MESSAGE),
            ("grpc.max_send_message_length", _MAX_MESSAGE),
        )
    )
    sandboxd_pb2_grpc.add_SandboxdServiceServicer_to_server(
        SandboxdServicer(CommandTable(workspace, reaper), workspace, herma.__version__), server
    )
    with tempfile.TemporaryDirectory(prefix="sandboxd-") as folder:
        if os.getpid() == 1:
            # In a container's own network namespace: a name that commands cannot remove or take over.
            inside = f"\0sandboxd-{uuid.uuid4().hex}"
            server.add_insecure_port(f"unix-abstract:{inside[1:]}")
        else:
            inside = f"{folder}/rpc.sock"
            server.add_insecure_port(f"unix:{inside}")
        await server.start()
        link = asyncio.create_task(keep_linked(outside, inside))
        await stopping.wait()
        link.cancel()
        kill_descendants()
        await server.stop(0)


def main() -> None:
    """Serves until SIGTERM; as PID 1 until SIGKILL.

    The kernel spares PID 1 the signals of its own commands as long as it handles none.
    """
    _harden(os.environ.pop("HERMA_SANDBOXD_PARENT", ""))
    if os.getpid() == 1:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
    outside = os.environ.pop("HERMA_SANDBOXD_SOCKET")
    top = os.environ.pop("HERMA_SANDBOXD_WORKSPACE", "/workspace")
    asyncio.run(_serve(outside, top))


main()
