"""Runs the checks, all at once, each with an end.

Invariant: `examine` answers within `SECONDS` and a moment, whatever a check waits for: each runs in a
thread of its own that nobody has to wait for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from herma.cli.doctor.database import check_database
from herma.cli.doctor.engine import check_engine
from herma.cli.doctor.finding import Finding, note, problem
from herma.cli.doctor.machine import check_disk, check_files, check_port, check_versions
from herma.cli.doctor.provider import check_provider
from herma.cli.doctor.scene import Scene
from herma.cli.doctor.services import check_logs, check_platform, check_services

SECONDS = 20.0

Check = Callable[[Scene], Iterator[Finding]]


def check_policy(_scene: Scene) -> Iterator[Finding]:
    """What guards commands."""
    yield note(
        "policy",
        "no command policy yet: every call is allowed by the rule `none`; the sandbox is the boundary",
    )


CHECKS: tuple[tuple[str, Check], ...] = (
    ("versions", check_versions),
    ("engine", check_engine),
    ("database", check_database),
    ("platform", check_platform),
    ("services", check_services),
    ("provider", check_provider),
    ("policy", check_policy),
    ("port", check_port),
    ("disk", check_disk),
    ("files", check_files),
    ("logs", check_logs),
)


class _Running:
    """One check in its thread."""

    def __init__(self, name: str, check: Check, scene: Scene) -> None:
        self._name = name
        self._found: list[Finding] = []
        self._thread = threading.Thread(target=self._run, args=(check, scene), daemon=True, name=name)
        self._thread.start()

    def _run(self, check: Check, scene: Scene) -> None:
        try:
            for finding in check(scene):
                self._found.append(finding)
        except Exception as error:  # noqa: BLE001  # a broken check is a finding, and the others go on
            # Its text may hold anything, secrets too.
            self._found.append(
                problem(self._name, f"the check broke ({type(error).__name__})", "please report it")
            )

    def findings(self, until: float) -> list[Finding]:
        """What it found by then."""
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread.is_alive():
            return [
                *self._found,
                problem(self._name, f"no answer within {SECONDS:.0f} s", "see whether it hangs"),
            ]
        return self._found


def examine(scene: Scene, checks: Sequence[tuple[str, Check]] = CHECKS) -> Iterator[Finding]:
    """Findings in the order of the checks."""
    until = time.monotonic() + SECONDS
    running = [_Running(name, check, scene) for name, check in checks]
    for check in running:
        yield from check.findings(until)
