"""A script: which step answers which request.

Answers are chosen by what the conversation says, not by a global order: the first rule that matches the
last user message, and of its steps the one whose number is that of the assistant messages since.  So
sessions may run at once, and a step that is asked for again after a crash gets the same answer.  Only
how often a fault was played is counted, for each conversation (two sessions with the same messages up
to the last user message are one conversation: tell them apart by a word).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support import chat_steps
from tests.support.chat_steps import Scripted, Step
from tests.support.chat_wire import Request

Match = str | re.Pattern[str] | Callable[[str], bool]


@dataclass(slots=True)
class _Slot:
    """One step, and the faults that come before it."""

    then: Scripted
    faults: list[Step] = field(default_factory=list)
    seen: dict[tuple[str, int], int] = field(default_factory=dict)

    def choose(self, request: Request) -> Step:
        key = (request.conversation, request.step)
        number = self.seen.get(key, 0)
        self.seen[key] = number + 1
        for fault in self.faults:
            number -= fault.times or 0
            if number < 0:
                return fault
        return self.then if isinstance(self.then, Step) else self.then(request)


class Script:
    """Rules in the order in which they are tried."""

    def __init__(self) -> None:
        self._rules: list[tuple[Match, list[_Slot]]] = []

    def on(self, match: Match, *steps: Scripted | Sequence[Scripted]) -> None:
        """What to answer when `match` fits the last user message; the last step is repeated.

        Raises:
            ValueError: when there is no step, or a fault with `times` has none after it.
        """
        flat: list[Scripted] = []
        for item in steps:
            flat.extend(item if isinstance(item, Sequence) else [item])
        slots: list[_Slot] = []
        faults: list[Step] = []
        for step in flat:
            if isinstance(step, Step) and step.times is not None:
                faults.append(step)
            else:
                slots.append(_Slot(step, faults))
                faults = []
        if faults or not slots:
            raise ValueError("a script needs a step after its faults")
        self._rules.append((match, slots))

    def choose(self, request: Request) -> Step:
        """The step that answers this request."""
        for match, slots in self._rules:
            if _fits(match, request.last_user):
                return slots[min(request.step, len(slots) - 1)].choose(request)
        return chat_steps.text("nothing is scripted for this")

    def read(self, rules: Sequence[dict[str, Any]]) -> None:
        """Adds rules from JSON: `{"match": "…" | {"regex": "…"}, "steps": [{"<builder>": …}, …]}`.

        A step names its builder; its value is the builder's first argument (null for one without), its
        other keys are the others: `{"text": "hi", "chunks": 2}`, `{"fault_status": 429, "times": 1}`,
        `{"calls": [["terminal", {"command": "ls"}]]}`, `{"echo_results": null}`.

        Raises:
            ValueError: when a builder is not known.
        """
        for rule in rules:
            match = rule["match"]
            self.on(
                re.compile(match["regex"]) if isinstance(match, dict) else match,
                *(_from_json(dict(step)) for step in rule["steps"]),
            )


_BUILDERS: dict[str, Callable[..., Step]] = {
    "calls": lambda wanted, **options: chat_steps.calls(*map(tuple, wanted), **options),
    "cut": chat_steps.cut,
    "echo_results": chat_steps.echo_results,
    "fault_status": chat_steps.fault_status,
    "hang": chat_steps.hang,
    "malformed": chat_steps.malformed,
    "raw_arguments": chat_steps.raw_arguments,
    "slow": chat_steps.slow,
    "text": chat_steps.text,
    "unknown_tool": chat_steps.unknown_tool,
}


def _from_json(step: dict[str, Any]) -> Step:
    # `text` is also an option of `calls`: the builder is what stands first.
    name = next(iter(step))
    if name not in _BUILDERS:
        raise ValueError(f"{name!r} is no step; the steps are {', '.join(_BUILDERS)}")
    value = step.pop(name)
    return _BUILDERS[name](*([] if value is None else [value]), **step)


def _fits(match: Match, content: str) -> bool:
    if isinstance(match, str):
        return match in content
    if isinstance(match, re.Pattern):
        return match.search(content) is not None
    return match(content)
