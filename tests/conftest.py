"""Fixtures of all tests, and what is said of tests that were left out."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

from tests.support.model_server import ScriptedModelServer
from tests.support.platform import TestPlatform, docker_answers

REQUIRED = os.environ.get("HERMA_REQUIRE_DOCKER") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if REQUIRED or not any("docker" in item.keywords for item in items) or docker_answers():
        return
    skip = pytest.mark.skip(reason="no Docker engine answers")
    for item in items:
        if "docker" in item.keywords:
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if REQUIRED and report.skipped and "docker" in item.keywords:
        report.outcome = "failed"
        report.longrepr = "HERMA_REQUIRE_DOCKER is set: a test that needs an engine must not be skipped"
    return report


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("left out")
        for report in skipped:
            terminalreporter.write_line(report.nodeid)


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModelServer]:
    """A scripted model server."""
    with ScriptedModelServer() as server:
        yield server


def platform_for(
    model: ScriptedModelServer, backend: str, *arguments: str, **environment: str
) -> Iterator[TestPlatform]:
    """A platform that asks this model server."""
    platform = TestPlatform(
        backend,
        {
            "HERMA_MODEL_BASE_URL": model.base_url,
            "HERMA_MODEL": "scripted",
            "HERMA_MODEL_API_KEY": model.api_key,
            "HERMA_LEASE_TTL_SECONDS": "6",
            "HERMA_SWEEP_SECONDS": "0.3",
            **environment,
        },
    )
    try:
        platform.up(*arguments)
        yield platform
    finally:
        platform.close()
