"""Which model answers on this machine: what the person chose, or what the environment names.

A route says what the runners are told of the model, whether its process has to run here, and the line
that people read.  Whether the model is offered tools is a property of the route, not of a model's name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from herma.common.errors import HermaError
from herma.local import local_model
from herma.local.installation import Installation
from herma.local.ports import Ports

_NAMED = ("HERMA_MODEL_BASE_URL", "HERMA_MODEL", "HERMA_MODEL_API_KEY")
_PASSED = (*_NAMED, "HERMA_MODEL_TOOLS", "OPENAI_API_KEY")
# A request waits while the model's slots answer others.
_LOCAL_IDLE_SECONDS = "600"


class ModelChoice(StrEnum):
    """What `herma up --model` takes."""

    AUTO = "auto"
    LOCAL = "local"
    REHEARSAL = "rehearsal"


class ModelRefused(HermaError):
    """The model that was asked for cannot be used."""

    reason = "MODEL_REFUSED"


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """The way to the model of one `herma up`.

    Args:
        choice: What was asked for.
        line: For people.
        environment: For agent-runner.
        port: Of the model's process on this machine; 0 when none has to run.
    """

    choice: ModelChoice
    line: str
    environment: Mapping[str, str]
    port: int = 0


def choose_route(choice: ModelChoice, installation: Installation, ports: Ports) -> ModelRoute:
    """The route of this installation.

    Raises:
        ModelRefused: when the choice contradicts the environment, or its parts are not installed.
    """
    line = provider_line(choice)
    if choice is ModelChoice.REHEARSAL:
        return ModelRoute(choice, line, {})
    if choice is ModelChoice.AUTO:
        return ModelRoute(
            choice, line, {name: os.environ[name] for name in _PASSED if os.environ.get(name)}
        )
    named = [name for name in _NAMED if os.environ.get(name)]
    if named:
        raise ModelRefused(
            f"`--model local` and {', '.join(named)} name different models, and neither wins: leave out "
            f"`--model local`, or unset {' and '.join(named)}"
        )
    problem = local_model.what_is_missing()
    if problem:
        raise ModelRefused(problem)
    port = ports.take()
    idle = os.environ.get("HERMA_MODEL_IDLE_SECONDS") or _LOCAL_IDLE_SECONDS
    environment = {
        "HERMA_MODEL_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "HERMA_MODEL": local_model.NAME,
        "HERMA_MODEL_API_KEY": installation.local_model_key,
        "HERMA_MODEL_TOOLS": "none",
        "HERMA_MODEL_IDLE_SECONDS": idle,
    }
    return ModelRoute(choice, line, environment, port)


def provider_line(choice: ModelChoice) -> str:
    """Which model answers, in words; the same wherever people are told."""
    if choice is ModelChoice.LOCAL:
        return f"{local_model.NAME} on this machine. {_NO_TOOLS}"
    base, model = os.environ.get("HERMA_MODEL_BASE_URL"), os.environ.get("HERMA_MODEL")
    without = f". {_NO_TOOLS}" if os.environ.get("HERMA_MODEL_TOOLS") == "none" else ""
    if choice is ModelChoice.AUTO:
        if base or model or os.environ.get("HERMA_MODEL_API_KEY"):
            return f"{model or 'the default model'} at {base or 'OpenAI'}{without}"
        if os.environ.get("OPENAI_API_KEY"):
            return f"OpenAI, by OPENAI_API_KEY{without}"
        return "rehearsal, which is not a model (set HERMA_MODEL_BASE_URL or OPENAI_API_KEY for one)"
    return "rehearsal, which is not a model"


_NO_TOOLS = "It calls no tools, so it is offered none"
