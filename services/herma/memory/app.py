"""Composition of memory: the only place that reads settings and constructs."""

from __future__ import annotations

from herma.api.memory.v1 import memory_pb2_grpc
from herma.common.app import Lifecycle, run
from herma.common.ids import UuidV7Factory
from herma.common.logs import logger
from herma.common.postgres import Database
from herma.common.postgres.migrations import ServiceSchema
from herma.common.rpc import RpcServer, ServedApi, ServiceIdentity, ServiceKeys
from herma.common.turn_token import TurnTokenVerifier
from herma.memory.domain.stop_words import stop_terms
from herma.memory.servicer import MemoryServicer
from herma.memory.settings import MemorySettings
from herma.memory.store.facts import FactStore
from herma.memory.store.notes import NoteStore

NAME = "memory"
SCHEMA = ServiceSchema("memory", "herma.memory")

_log = logger(__name__)


async def serve(settings: MemorySettings, lifecycle: Lifecycle) -> None:
    """Serves until asked to stop."""
    database = Database(settings.database_url.get_secret_value(), size=settings.database_pool_size)
    await database.open()
    keys = {pair: key.get_secret_value() for pair, key in settings.service_keys.items()}
    facts = FactStore(database, UuidV7Factory(), stop_terms())
    verifier = TurnTokenVerifier(settings.turn_token_public_key.encode())
    server = RpcServer(
        ServiceIdentity(NAME, ServiceKeys(keys)),
        [
            ServedApi(
                "herma.api.memory.v1.MemoryService",
                memory_pb2_grpc.add_MemoryServiceServicer_to_server,
                MemoryServicer(NoteStore(database), facts, verifier),
                frozenset({"agent-runner"}),
            )
        ],
        settings.listen,
        with_reflection=settings.reflection,
    )
    try:
        await server.start()
        _log.info("serving", port=server.port)
        await lifecycle.stopping()
        await server.refuse()
        await server.stop(2.0)
    finally:
        await database.close()


def main() -> None:
    """Runs the service with settings from the environment."""
    settings = MemorySettings()
    run(NAME, settings, lambda lifecycle: serve(settings, lifecycle), grace=settings.drain_seconds)
