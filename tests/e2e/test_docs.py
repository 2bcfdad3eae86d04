"""Everything that the README and `docs/` tell people to run, run.

Each document runs from its top to its end in a folder that looks like a checkout (links to this one's
files, so that `make up` and `.herma` mean what they mean to a reader), with the port taken from what is
free.  Variables and functions live on from block to block, as in a terminal.  The README starts and
stops platforms of its own; the others share one that is up.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.doc_blocks import RUN, Block, blocks_of, mismatch, shown_after
from tests.support.platform import TestPlatform
from tests.support.ports import take_port
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
# Documents whose commands are run, but not here.
ELSEWHERE = {
    "benchmarks.md": "`make bench` writes it, with its own command in it, and takes many minutes",
    "compose.md": "it builds images and starts containers, as a test of its own does",
}
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
PORT = "8700"


class Checkout:
    """A folder that looks like a checkout, and a terminal in it."""

    def __init__(self, backend: str) -> None:
        # `make` in the folder would install into the environment that the links share, and name the
        # folder in it.
        fresh = subprocess.run(["make", "-q", ".venv/stamp"], cwd=ROOT, capture_output=True, check=False)
        assert fresh.returncode == 0, "the environment is out of date: run `make setup` first"
        # It knows how a platform's data folder is cleaned up.
        self._platform = TestPlatform(backend)
        self.folder = self._platform.data / "checkout"
        self.folder.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in (".git", ".herma", ".cache"):
                (self.folder / entry.name).symlink_to(entry)
        self._platform.data = self.folder / ".herma"
        self._platform.environment["HERMA_DATA_DIR"] = str(self._platform.data)
        self.port = str(take_port())
        self.environment = {
            **{k: v for k, v in self._platform.environment.items() if k != "HERMA_DATA_DIR"},
            "HERMA_HTTP_PORT": self.port,
        }
        self._variables = self.folder / ".variables"
        self._serving: subprocess.Popen[str] | None = None

    def open_terminal(self) -> None:
        """Forgets the variables of the terminal before."""
        self._variables.write_text("")

    def run(self, block: Block) -> str:
        """Runs a block to its end; what it printed.

        Raises:
            AssertionError: when it ends with another status than the document says.
        """
        argv = {
            "sh": ["bash", "-eo", "pipefail", "-c", self._shell(block.text)],
            "python": [str(self.folder / ".venv/bin/python"), "-c", self._here(block.text)],
        }[block.language]
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        wanted = int(block.options.get("exit", "0"))
        assert done.returncode == wanted, (
            f"{block.where} ended with {done.returncode}\n{block.text}\n{done.stdout}{done.stderr}"
            f"\n{self._platform.logs()}"
        )
        return done.stdout

    async def start(self, block: Block) -> str:
        """Runs a block that stays up, until it is ready; what it printed so far."""
        log = self.folder / f"up-{block.line}.out"
        with log.open("w") as output:
            self._serving = subprocess.Popen(
                ["bash", "-c", f"exec bash -c {self._quoted(block.text)}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

        def ready() -> bool:
            assert self._serving is not None
            assert self._serving.poll() is None, f"{block.where} ended: {log.read_text()}"
            return "Ctrl-C" in log.read_text() and (self._platform.data / "up.json").exists()

        await eventually(ready, f"{block.where} is ready", 120)
        return log.read_text()

    def close(self) -> None:
        """Stops what serves and removes everything."""
        self._platform.close()
        if self._serving is not None:
            try:
                self._serving.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self._serving.pid, signal.SIGKILL)
                self._serving.wait()

    def _shell(self, text: str) -> str:
        return (
            f"set -a; source {self._variables}; set +a\n"
            f"trap 'status=$?; {{ export -p; declare -f; }} > {self._variables}; exit $status' EXIT\n"
            f"set -a\n{self._here(text)}"
        )

    def _here(self, text: str) -> str:
        """With the port that this platform has."""
        return re.sub(rf"\b{PORT}\b", self.port, text)

    def _quoted(self, text: str) -> str:
        return "'" + self._here(text).replace("'", "'\\''") + "'"


@pytest.fixture
def checkout(backend: str) -> Iterator[Checkout]:
    found = Checkout(backend)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def shared(backend: str) -> Iterator[Checkout]:
    found = Checkout(backend)
    up = Block(README, 0, "sh", {}, ".venv/bin/herma up --model rehearsal", 0)
    try:
        asyncio.run(found.start(up))
        found.environment["PATH"] = f"{found.folder / '.venv/bin'}:{found.environment['PATH']}"
        yield found
    finally:
        found.close()


def ran(document: Path) -> list[Block]:
    """The blocks of a document that are run."""
    return [b for b in blocks_of(document) if b.language in RUN and "no-test" not in b.options]


async def walk(checkout: Checkout, document: Path) -> None:
    """Runs a document from its top to its end."""
    blocks = blocks_of(document)
    checkout.open_terminal()
    for block in ran(document):
        stays = "stays-up" in block.options
        printed = await checkout.start(block) if stays else checkout.run(block)
        shown = shown_after(blocks, block)
        if shown is not None:
            problem = mismatch(shown, printed.replace(checkout.port, PORT))
            assert not problem, f"{block.where} prints something else\n{problem}"


@pytest.mark.timeout(400)
async def test_the_readme_works_from_its_top_to_its_end(checkout: Checkout) -> None:
    await walk(checkout, README)


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if d.name not in ELSEWHERE and ran(d)], ids=lambda d: str(d.name)
)
async def test_every_document_works_on_a_platform_that_is_up(shared: Checkout, document: Path) -> None:
    await walk(shared, document)


def test_what_is_not_run_has_a_reason() -> None:
    here = [d for d in (README, *DOCUMENTS) if d.name not in ELSEWHERE]
    left_out = [b for d in here for b in blocks_of(d) if "no-test" in b.options]
    for block in left_out:
        assert len(block.options.get("reason", "").split()) >= 3, block.where
    assert len(left_out) <= 12, "the documents are to be run"


def test_every_link_leads_somewhere() -> None:
    for document in (README, ROOT / "CONTRIBUTING.md", *DOCUMENTS):
        for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
            if target.startswith(("http://", "https://")):
                continue
            name, _, anchor = target.partition("#")
            path = (document.parent / name).resolve() if name else document
            assert path.exists(), f"{document.name}: {target}"
            if anchor:
                assert anchor in anchors(path), f"{document.name}: {target}"


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for document in DOCUMENTS:
        assert document.name == "README.md" or f"]({document.name})" in index, document.name
