"""Memory without any model: told in one session, quoted in the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.platform import TestPlatform


@pytest.fixture(scope="module")
def platform() -> Iterator[TestPlatform]:
    platform = TestPlatform("local")
    try:
        platform.up()
        yield platform
    finally:
        platform.close()


def test_a_newcomer_sees_memory_work(platform: TestPlatform) -> None:
    told = platform.herma("send", "remember: my dog is called Rexxo").stdout
    assert "Remembered" in told
    asked = platform.herma("send", "what is my dog called?").stdout
    assert "not a model" in asked or "no model is configured" in asked
    assert "I was reminded of:" in asked
    assert "my dog is called Rexxo" in asked
