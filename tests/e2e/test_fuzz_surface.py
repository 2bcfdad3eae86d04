"""The HTTP API as its own document describes it: schemathesis finds nothing that contradicts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import platform_for
from tests.support.model_server import ScriptedModelServer, text
from tests.support.platform import TestPlatform

_SETTINGS = Path(__file__).parent / "schemathesis.toml"


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer() as server:
        server.on("", text("Yes."))
        yield server


@pytest.fixture(scope="module")
def platform(model: ScriptedModelServer) -> Iterator[TestPlatform]:
    yield from platform_for(model, "local")


def fuzz(platform: TestPlatform, folder: Path, *options: str) -> None:
    """Lets schemathesis at the API, with the operator's key."""
    (folder / "schemathesis.toml").write_text(_SETTINGS.read_text())
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            f"{platform.up_file['http']}/openapi.json",
            f"--header=Authorization: Bearer {platform.admin_key}",
            "--phases=examples,coverage,fuzzing",
            "--request-timeout=20",
            "--no-color",
            *options,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_what_is_answered_is_what_is_documented(platform: TestPlatform, tmp_path: Path) -> None:
    # A stream of events has no end, and no shape that a schema tells.  Whoever revokes keys revokes the
    # one that is used here: last.
    revocation = r"^/v1/keys/\{key_id\}$"
    fuzz(platform, tmp_path, f"--exclude-path-regex=/events$|{revocation}", "--max-examples=40")
    fuzz(platform, tmp_path, f"--include-path-regex={revocation}", "--max-examples=10")
