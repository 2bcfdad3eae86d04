"""Builds the sandbox images: `herma-base:dev`.

The base is `HERMA_IMAGE_BASE` if set; else a Debian made here by mmdebstrap, which needs root and a
Debian mirror and no registry; else, for whoever is not root, `debian:bookworm-slim` of a registry.
Standard library only.  Does nothing when an image with the same inputs is there already; `--check`
builds nothing and says by its exit code whether it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAG = "herma-base:dev"
DEBIAN = "herma-debian:bookworm"
REGISTRY_DEBIAN = "debian:bookworm-slim"
PACKAGES = ("python3", "bash", "coreutils", "git", "ripgrep", "procps", "ca-certificates")
WHEELS = ("grpcio", "protobuf", "typing-extensions")
SOURCES = (
    "herma/__init__.py",
    "herma/api/__init__.py",
    "herma/api/sandboxd",
    "herma/sandboxd",
)
LAUNCHER = """\
#!/usr/bin/python3 -I
import sys
sys.path.insert(0, "/opt/herma/site")
import runpy
runpy.run_module("herma.sandboxd", run_name="__main__", alter_sys=True)
"""


def main() -> None:
    """Builds what is missing."""
    pins = locked(WHEELS)
    base = os.environ.get("HERMA_IMAGE_BASE", "")
    content = content_hash(pins, base)
    if label(TAG) == content:
        print(f"{TAG} is up to date")
        return
    if "--check" in sys.argv[1:]:
        sys.exit(f"{TAG} is missing or of other sources")
    if not base and can_make_debian():
        base = DEBIAN
        make_debian(DEBIAN, PACKAGES)
    base = base or REGISTRY_DEBIAN
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        assemble(context, pins)
        run(
            "docker", "build", "--quiet", "--tag", TAG,
            "--build-arg", f"BASE={base}", "--build-arg", f"CONTENT={content}", str(context),
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
        )  # fmt: skip
    print(f"built {TAG} on {base}")


def locked(names: tuple[str, ...]) -> str:
    """The lines of requirements.lock that pin these packages, with their hashes."""
    text = (ROOT / "requirements.lock").read_text()
    blocks = []
    for name in names:
        match = re.search(rf"^{name}==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        if match is None:
            sys.exit(f"{name} is not in requirements.lock")
        lines = [line for line in match[0].splitlines() if not line.strip().startswith("#")]
        blocks.append("\n".join(lines).rstrip().rstrip("\\"))
    return "\n".join(blocks) + "\n"


def content_hash(pins: str, base: str) -> str:
    """SHA-256 over everything that goes into the image."""
    digest = hashlib.sha256((pins + base + LAUNCHER + " ".join(PACKAGES)).encode())
    files = [ROOT / "sandbox_images/base/Dockerfile"]
    for source in SOURCES:
        path = ROOT / "services" / source
        files.extend(sorted(path.rglob("*.py")) if path.is_dir() else [path])
    for file in files:
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def label(tag: str) -> str:
    """The content label of an image; empty when there is none."""
    found = subprocess.run(
        ["docker", "image", "inspect", "--format", '{{index .Config.Labels "herma.content"}}', tag],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() if found.returncode == 0 else ""


def can_make_debian() -> bool:
    """Whether mmdebstrap can be used here: as root, and there already or to be installed."""
    return os.getuid() == 0 and any(shutil.which(tool) for tool in ("mmdebstrap", "apt-get"))


def make_debian(name: str, included: tuple[str, ...]) -> None:
    """Imports a minimal Debian with these packages as an image, unless it is there."""
    packages = hashlib.sha256(" ".join(included).encode()).hexdigest()[:16]
    tag = f"{name}-{packages}"
    inspected = subprocess.run(["docker", "image", "inspect", tag], capture_output=True, check=False)
    if inspected.returncode != 0:
        if shutil.which("mmdebstrap") is None:
            run("apt-get", "update", "-qq")
            run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "mmdebstrap")
        print("making a Debian base (about a minute)", flush=True)
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            run(
                "mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(included)}",
                "bookworm", archive.name,
            )  # fmt: skip
            run("docker", "import", archive.name, tag)
    run("docker", "tag", tag, name)


def assemble(context: Path, pins: str) -> None:
    """Lays out the build context."""
    shutil.copy(ROOT / "sandbox_images/base/Dockerfile", context)
    site = context / "site"
    site.mkdir()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "herma" / "wheels"
    wheels = cache / hashlib.sha256(pins.encode()).hexdigest()[:16]
    if not wheels.exists():
        download(pins, wheels)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    for source in SOURCES:
        path = ROOT / "services" / source
        target = site / source
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyi"))
        else:
            shutil.copy(path, target)
    (context / "sandboxd").write_text(LAUNCHER)


def download(pins: str, wheels: Path) -> None:
    """Fetches the locked wheels of Python 3.11; all of them or nothing."""
    wheels.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wheels.parent) as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(pins)
        run(
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version=3.11",
            "--dest", str(Path(folder) / "wheels"), "--requirement", str(requirements),
        )  # fmt: skip
        (Path(folder) / "wheels").rename(wheels)


def run(*argv: str, env: dict[str, str] | None = None) -> None:
    """Runs a command; what it said is shown if it failed, and its failure is ours."""
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\n{argv[0]} failed")


if __name__ == "__main__":
    main()
