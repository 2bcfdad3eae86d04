"""Composition of agent-runner: the only place that reads settings and constructs."""

from __future__ import annotations

from contextlib import AsyncExitStack

import httpx

from herma.agent_runner.authority import Authority
from herma.agent_runner.domain.provider import Provider
from herma.agent_runner.domain.tool import ToolRegistry
from herma.agent_runner.memory import MemoryClient
from herma.agent_runner.providers.chat_completions import ChatCompletions
from herma.agent_runner.providers.rehearsal import Rehearsal
from herma.agent_runner.runner import Runner
from herma.agent_runner.sandbox import SandboxClient
from herma.agent_runner.settings import RunnerSettings
from herma.agent_runner.tools import CORE_TOOLS
from herma.common.app import Lifecycle, run
from herma.common.clock import SystemClock
from herma.common.ids import UuidV7Factory
from herma.common.logs import logger
from herma.common.rpc import Peer, RpcServer, ServiceIdentity, ServiceKeys

NAME = "agent-runner"

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-5-mini"

_log = logger(__name__)


async def serve(settings: RunnerSettings, lifecycle: Lifecycle) -> None:
    """Works until asked to stop, then hands over."""
    keys = {pair: key.get_secret_value() for pair, key in settings.service_keys.items()}
    identity = ServiceIdentity(NAME, ServiceKeys(keys))
    async with AsyncExitStack() as stack:
        authority = Peer("session-authority", settings.authority_address, identity)
        sandbox = Peer("tool-sandbox", settings.sandbox_address, identity)
        memory = Peer("memory", settings.memory_address, identity)
        for peer in (authority, sandbox, memory):
            await stack.enter_async_context(peer)
        client = await stack.enter_async_context(
            httpx.AsyncClient(
                timeout=httpx.Timeout(settings.model_idle_seconds, connect=10.0),
                limits=httpx.Limits(max_connections=settings.runner_slots * 2),
            )
        )
        provider = provider_of(settings, client)
        # Health only: nobody calls a runner.
        server = RpcServer(identity, (), settings.listen, with_reflection=settings.reflection)
        await server.start()
        runner = Runner(
            authority=Authority(authority),
            sandboxes=SandboxClient(sandbox),
            memory=MemoryClient(memory),
            provider=provider,
            registry=ToolRegistry(
                {tool.name: tool for tool in CORE_TOOLS}, offered=settings.model_tools == "auto"
            ),
            clock=SystemClock(),
            new_id=UuidV7Factory(),
            slots=settings.runner_slots,
        )
        _log.info(
            "serving",
            port=server.port,
            provider=provider.name,
            model=provider.model,
            model_tools=settings.model_tools,
            runner_id=runner.id,
        )
        await runner.run(lifecycle, max(0.0, settings.drain_seconds - 5))
        await server.refuse()
        await server.stop(0.5)


def provider_of(settings: RunnerSettings, client: httpx.AsyncClient) -> Provider:
    """The provider that the settings name; `rehearsal` when they name none."""
    openai_key = settings.openai_api_key.get_secret_value()
    if settings.model_base_url or settings.model or settings.model_api_key.get_secret_value():
        return ChatCompletions(
            client,
            settings.model_base_url or OPENAI_URL,
            settings.model or OPENAI_MODEL,
            settings.model_api_key.get_secret_value() or ("" if settings.model_base_url else openai_key),
        )
    if openai_key:
        return ChatCompletions(client, OPENAI_URL, OPENAI_MODEL, openai_key)
    return Rehearsal()


def main() -> None:
    """Runs the service with settings from the environment."""
    settings = RunnerSettings()
    run(NAME, settings, lambda lifecycle: serve(settings, lifecycle), grace=settings.drain_seconds)
