"""One platform a module, on which A has lived."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import platform_for
from tests.e2e.isolation.world import World, alive, speaking_model
from tests.support.model_server import ScriptedModelServer
from tests.support.platform import TestPlatform


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModelServer]:
    with speaking_model() as server:
        yield server


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    yield from platform_for(model, "local")


@pytest.fixture(scope="module")
def lived(platform: TestPlatform) -> World:
    return alive(World(platform))
