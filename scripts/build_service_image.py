"""Builds the services' image, `herma:dev`, also where no registry can be reached.

The base is `HERMA_SERVICE_IMAGE_BASE` if set; else a Debian with Python made here by mmdebstrap, which
needs root and a Debian mirror; else the Dockerfile's own, of a registry.  The locked wheels are fetched
here, with pip's settings of this machine, so that the build itself asks no index.  Does nothing when an
image with the same inputs is there already.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from build_images import ROOT, can_make_debian, download, label, make_debian, run
from runtime_requirements import runtime_requirements

TAG = "herma:dev"
DEBIAN = "herma-python:bookworm"
PACKAGES = ("python3", "ca-certificates")
WHEELS = ROOT / ".cache" / "service-wheels"
FILES = (
    "services/Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "requirements.lock",
    "scripts/runtime_requirements.py",
)


def main() -> None:
    """Builds it if it is not there."""
    base = os.environ.get("HERMA_SERVICE_IMAGE_BASE", "")
    content = content_hash(base)
    if label(TAG) == content:
        print(f"{TAG} is up to date")
        return
    fetch_wheels(runtime_requirements(ROOT))
    if not base and can_make_debian():
        base = DEBIAN
        make_debian(DEBIAN, PACKAGES)
    arguments = {
        **({"BASE": base} if base else {}),
        "CONTENT": content,
        "VERSION": version(),
        "REVISION": revision(),
    }
    run(
        "docker", "build", "--quiet", "--tag", TAG, "--file", str(ROOT / "services/Dockerfile"),
        *(part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")),
        str(ROOT),
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )  # fmt: skip
    print(f"built {TAG} on {base or 'the base of its Dockerfile'}")


def content_hash(base: str) -> str:
    """SHA-256 over everything that goes into the image."""
    digest = hashlib.sha256((base + " ".join(PACKAGES)).encode())
    code = (ROOT / "services/herma").rglob("*")
    kept = (path for path in code if path.is_file() and "__pycache__" not in path.parts)
    for file in (*(ROOT / name for name in FILES), *sorted(kept)):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def fetch_wheels(requirements: str) -> None:
    """Makes `WHEELS` hold exactly what these requirements name."""
    stamp = WHEELS / "requirements.txt"
    if stamp.exists() and stamp.read_text() == requirements:
        return
    building = WHEELS.with_name(WHEELS.name + f".{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    download(requirements, building)
    (building / stamp.name).write_text(requirements)
    shutil.rmtree(WHEELS, ignore_errors=True)
    building.rename(WHEELS)


def version() -> str:
    """Of this tree."""
    text = (ROOT / "services/herma/__init__.py").read_text()
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return match[1] if match else "dev"


def revision() -> str:
    """The commit of this tree; `unknown` outside a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(ROOT)), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
