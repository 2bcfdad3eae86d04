"""Composition of tool-sandbox: the only place that reads settings and constructs."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from herma.api.sandbox.v1 import sandbox_pb2_grpc
from herma.common.app import Lifecycle, run
from herma.common.ids import UuidV7Factory
from herma.common.logs import logger
from herma.common.postgres import Database
from herma.common.postgres.migrations import ServiceSchema
from herma.common.rpc import Peer, RpcServer, ServedApi, ServiceIdentity, ServiceKeys
from herma.common.turn_token import TurnTokenVerifier
from herma.tool_sandbox.engine_client import BrokerClient
from herma.tool_sandbox.link import make_private
from herma.tool_sandbox.retirement import retire
from herma.tool_sandbox.sandboxes import Sandboxes
from herma.tool_sandbox.servicer import SandboxServicer
from herma.tool_sandbox.settings import SandboxSettings
from herma.tool_sandbox.store import SandboxStore

NAME = "tool-sandbox"
SCHEMA = ServiceSchema("sandbox", "herma.tool_sandbox")

_log = logger(__name__)


async def serve(settings: SandboxSettings, lifecycle: Lifecycle) -> None:
    """Serves until asked to stop; sandboxes stay, unless the settings say otherwise."""
    database = Database(settings.database_url.get_secret_value(), size=settings.database_pool_size)
    await database.open()
    keys = {pair: key.get_secret_value() for pair, key in settings.service_keys.items()}
    identity = ServiceIdentity(NAME, ServiceKeys(keys))
    make_private(settings.sandbox_socket_dir)
    with tempfile.TemporaryDirectory(prefix="herma-tool-sandbox-") as private:
        async with Peer("tool-sandbox-broker", f"unix:{settings.broker_socket}", identity) as broker:
            engine = BrokerClient(broker)
            sandboxes = Sandboxes(
                SandboxStore(database, UuidV7Factory()),
                engine,
                settings.sandbox_socket_dir,
                Path(private),
                isolates=settings.sandbox_backend != "local",
            )
            verifier = TurnTokenVerifier(settings.turn_token_public_key.encode())
            server = RpcServer(
                identity,
                [
                    ServedApi(
                        "herma.api.sandbox.v1.SandboxService",
                        sandbox_pb2_grpc.add_SandboxServiceServicer_to_server,
                        SandboxServicer(sandboxes, verifier, settings.sandbox_backend),
                        frozenset({"agent-runner"}),
                    )
                ],
                settings.listen,
                with_reflection=settings.reflection,
            )
            await server.start()
            _log.info("serving", port=server.port, backend=settings.sandbox_backend)
            tending = asyncio.create_task(
                sandboxes.tend(settings.sandbox_idle_seconds, settings.sandbox_sweep_seconds)
            )
            try:
                await lifecycle.stopping()
                await server.refuse()
                # Before the calls are cut: their sandboxes are kept, to be attached to again.
                busy = sandboxes.busy()
                await server.stop(1.0)
                if settings.sandbox_remove_on_stop:
                    await retire(engine, settings.sandbox_socket_dir, busy)
            finally:
                tending.cancel()
                await sandboxes.close()
                await database.close()


def main() -> None:
    """Runs the service with settings from the environment."""
    settings = SandboxSettings()
    run(NAME, settings, lambda lifecycle: serve(settings, lifecycle), grace=settings.drain_seconds)
