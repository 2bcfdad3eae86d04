"""Several replicas of everything that may have them are one platform."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.conftest import platform_for
from tests.support.model_server import ScriptedModelServer, text
from tests.support.platform import Client, TestPlatform


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    model.on("PLAIN", text("one two three four", per_chunk=0.05))
    yield from platform_for(model, "local", "--runners", "2", "--authorities", "2", "--gateways", "2")


async def test_a_stream_on_one_gateway_shows_what_another_admits(platform: TestPlatform) -> None:
    addresses = [s["address"] for s in platform.up_file["services"] if s["name"].startswith("gateway")]
    assert len(addresses) == 2
    async with (
        Client(f"http://{addresses[0]}", platform.admin_key) as one,
        Client(f"http://{addresses[1]}", platform.admin_key) as two,
    ):
        session = await one.session()

        async def watch(client: Client) -> tuple[list[int], str]:
            numbers, streamed = [], ""
            async for event in client.events(session):
                if event["id"] is None:
                    streamed += event["text"]
                else:
                    numbers.append(event["id"])
                if event["event"] == "turn.ended":
                    return numbers, streamed
            raise AssertionError("the stream ended early")

        watchers = [asyncio.create_task(watch(client)) for client in (one, two, one, two)]
        await one.submit(session, "PLAIN")
        seen = await asyncio.gather(*watchers)
        for numbers, streamed in seen:
            assert numbers == list(range(1, len(numbers) + 1))
            assert streamed
            assert "one two three four".startswith(streamed)


async def test_a_killed_replica_is_not_missed(platform: TestPlatform) -> None:
    async with platform.client() as client:
        session = await client.session()
        first = await client.submit(session, "PLAIN")
        platform.kill("session-authority-1")
        second = await client.submit(session, "PLAIN")
        for admitted in (first, second):
            assert (await client.ended(admitted["turn_id"]))["state"] == "completed"
