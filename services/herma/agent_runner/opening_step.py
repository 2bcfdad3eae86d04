"""Before a turn's first model call: what its requests are built from, with memory asked at most once.

Memory never fails a turn: when it does not answer in time, the turn goes on without recall and says so.
A system prompt that was built without the notes for that reason is provisional: it holds for the turn,
and the session's next turn builds it again, so that notes are never missing for good.
"""

from __future__ import annotations

from datetime import datetime

from herma.agent_runner.domain.ledger import Ledger
from herma.agent_runner.domain.memory import Memories
from herma.agent_runner.domain.opening import Opening, Wanted, wanted_of
from herma.agent_runner.domain.prompt import build_system_prompt
from herma.agent_runner.domain.recollection import render_facts, render_notes
from herma.agent_runner.memory import TurnMemory
from herma.common.clock import Clock
from herma.common.errors import HermaError
from herma.common.logs import logger

_log = logger(__name__)


class OpeningStep:
    """Of one turn.

    Args:
        persona: Of the profile.
        instructions: Of the caller, for the session.
        began: When the turn was admitted: what an untrusted turn's prompt is dated.
        tools: Whether the model is offered any.
        with_memory: Whether some of them work on memory.
    """

    def __init__(
        self,
        memory: TurnMemory,
        persona: str,
        instructions: str,
        clock: Clock,
        began: datetime,
        *,
        tools: bool,
        with_memory: bool,
    ) -> None:
        self._memory = memory
        self._persona = persona
        self._instructions = instructions
        self._clock = clock
        self._began = began
        self._tools = tools
        self._with_memory = with_memory

    async def prepare(self, ledger: Ledger) -> Opening:
        """What the next request begins with; asks memory if nothing is recorded yet."""
        if not ledger.is_trusted:
            # Built anew from the ledger alone, so it need not be recorded: the session's prompt may
            # hold notes, and this one must not become the session's.
            return Opening(self._build("", self._began))
        wanted = wanted_of(ledger)
        memories = await self._recall(wanted)
        context, recalled = render_facts(memories.facts if memories else ())
        found = ledger.input
        undecided = found is not None and found.context is None and ledger.iterations == 0
        is_new = not ledger.system_prompt
        return Opening(
            system_prompt=ledger.system_prompt or self._build_now(memories),
            is_new=is_new,
            is_provisional=is_new and memories is None,
            context=context if undecided else None,
            recalled=recalled,
            failed=memories is None,
        )

    def _build_now(self, memories: Memories | None) -> str:
        return self._build(render_notes(memories.notes) if memories else "", self._clock.now())

    def _build(self, notes: str, at: datetime) -> str:
        return build_system_prompt(
            self._persona,
            notes,
            at,
            instructions=self._instructions,
            tools=self._tools,
            with_memory=self._with_memory,
        )

    async def _recall(self, wanted: Wanted) -> Memories | None:
        """What memory has; None when it did not answer."""
        if wanted.is_nothing:
            return Memories((), ())
        try:
            return await self._memory.recall(wanted)
        except HermaError as error:
            _log.warning("the turn goes on without recall", reason=error.reason)
            return None
