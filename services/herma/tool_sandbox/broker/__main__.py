"""`python -m herma.tool_sandbox.broker`: composition of the broker."""

from __future__ import annotations

from herma.api.broker.v1 import broker_pb2_grpc
from herma.common.app import Lifecycle, run
from herma.common.errors import InvalidArgument
from herma.common.logs import logger
from herma.common.rpc import RpcServer, ServedApi, ServiceIdentity, ServiceKeys
from herma.tool_sandbox.broker.docker_engine import DockerEngine
from herma.tool_sandbox.broker.local_engine import LocalEngine
from herma.tool_sandbox.broker.servicer import BrokerServicer
from herma.tool_sandbox.broker.settings import BrokerSettings
from herma.tool_sandbox.broker.template import Template

NAME = "tool-sandbox-broker"

_log = logger(__name__)


async def serve(settings: BrokerSettings, lifecycle: Lifecycle) -> None:
    """Serves until asked to stop."""
    engine = _engine(settings)
    keys = {pair: key.get_secret_value() for pair, key in settings.service_keys.items()}
    socket = settings.broker_socket
    socket.unlink(missing_ok=True)
    server = RpcServer(
        ServiceIdentity(NAME, ServiceKeys(keys)),
        [
            ServedApi(
                "herma.api.broker.v1.BrokerService",
                broker_pb2_grpc.add_BrokerServiceServicer_to_server,
                BrokerServicer(engine),
                frozenset({"tool-sandbox"}),
            )
        ],
        f"unix:{socket}",
    )
    await server.start()
    _log.info("serving", backend=engine.name)
    await lifecycle.stopping()
    await server.refuse()
    await server.stop(2.0)
    await engine.close()


def _engine(settings: BrokerSettings) -> DockerEngine | LocalEngine:
    if settings.sandbox_backend == "docker":
        return DockerEngine(
            settings.installation,
            settings.sandbox_socket_dir,
            Template(
                settings.sandbox_image,
                memory_bytes=settings.sandbox_memory_bytes,
                cpus=settings.sandbox_cpus,
                pids=settings.sandbox_pids,
            ),
        )
    if settings.sandbox_local_dir is None:
        raise InvalidArgument("HERMA_SANDBOX_LOCAL_DIR is needed for the backend `local`")
    _log.warning("the backend `local` isolates nothing: trusted development only")
    return LocalEngine(settings.sandbox_socket_dir, settings.sandbox_local_dir)


def main() -> None:
    """Runs the broker with settings from the environment."""
    settings = BrokerSettings()
    run(NAME, settings, lambda lifecycle: serve(settings, lifecycle), grace=settings.drain_seconds)


main()
