"""The backend of whole-platform tests: Docker if an engine answers, or must; else `local`."""

from __future__ import annotations

import pytest

from tests.conftest import REQUIRED
from tests.support.platform import docker_answers


@pytest.fixture(scope="session")
def backend() -> str:
    return "docker" if REQUIRED or docker_answers() else "local"
