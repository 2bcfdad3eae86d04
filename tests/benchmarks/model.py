"""The scripted model server as a process of its own, with the answers that the measurements ask for.

What it answers depends on the last user message: `true N` calls `terminal` with `true` N times, one after
the other; `stamp` begins with the time of its writing; `hold` answers nothing until the client goes; all
else gets eight words at once.  It waits for nothing on its own account.

Invariant: times are `time.monotonic_ns`, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections import deque

from tests.support.chat_steps import Step, call, calls, hang, text
from tests.support.chat_wire import Reply, Request
from tests.support.model_server import ScriptedModelServer

ANSWER = "one two three four five six seven eight"
# Longer than the coalescing of deltas, so that the first one is shown before the message is complete.
STAMP_PAUSE = 0.15


def _stamped() -> Step:
    async def play(reply: Reply) -> None:
        await reply.chunk({"role": "assistant", "content": ""})
        await reply.chunk({"content": f"at {time.monotonic_ns()} "})
        await asyncio.sleep(STAMP_PAUSE)
        await reply.chunk({"content": "done"})
        await reply.end("stop", 2)

    return Step(play)


def _true(request: Request) -> Step:
    wanted = re.search(r"true (\d+)", request.last_user)
    if wanted and request.step < int(wanted[1]):
        return calls(call("terminal", command="true"))
    return text("done")


def main() -> None:
    """Serves until SIGINT or SIGTERM; prints its base URL."""
    stops = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    server = ScriptedModelServer(api_key="")
    # A hundred thousand turns must not fill the machine's memory.
    server.requests = deque(maxlen=64)  # type: ignore[assignment]  # as much of a list as is used
    server.on("true ", _true)
    server.on("stamp", _stamped())
    server.on("hold", hang(3600))
    server.on("", text(ANSWER))
    with server:
        print(server.base_url, flush=True)
        signal.sigwait(stops)


if __name__ == "__main__":
    main()
