"""The model provider: whether it is there and takes the key."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from herma.agent_runner.app import OPENAI_MODEL, OPENAI_URL
from herma.cli.doctor.finding import Finding, note, ok, problem
from herma.cli.doctor.scene import Scene
from herma.cli.terminal_text import one_line
from herma.common.redaction import redact
from herma.local.model_route import ModelChoice, provider_line

_SECONDS = 8.0


def check_provider(scene: Scene) -> Iterator[Finding]:
    """Asks `GET /models` of the provider that this environment names."""
    if scene.remote:
        yield note("provider", "the platform is elsewhere: its provider is set there")
        return
    line = provider_line(ModelChoice.AUTO)
    if scene.up is not None and scene.up.get("model_choice", ModelChoice.AUTO) != ModelChoice.AUTO:
        # `herma up --model` chose it, so this environment says nothing about it.
        yield ok("provider", str(scene.up["model"]))
        return
    environment = scene.environment
    base, model = environment.get("HERMA_MODEL_BASE_URL", ""), environment.get("HERMA_MODEL", "")
    key = environment.get("HERMA_MODEL_API_KEY", "")
    openai_key = environment.get("OPENAI_API_KEY", "")
    if not (base or model or key or openai_key):
        yield ok("provider", line)
        return
    if not (base or key):
        key = openai_key
    yield _ask((base or OPENAI_URL).rstrip("/"), model or OPENAI_MODEL, key)


def _ask(base: str, model: str, key: str) -> Finding:
    place = redact(one_line(base, 120))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        response = httpx.get(f"{base}/models", headers=headers, timeout=_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        return problem(
            "provider",
            f"{place} does not answer ({type(error).__name__})",
            "start the model server, check HERMA_MODEL_BASE_URL (it ends in /v1) and the network",
        )
    if response.status_code in (401, 403):
        return problem(
            "provider",
            f"{place} does not accept the key" if key else f"{place} wants a key",
            "set HERMA_MODEL_API_KEY (or OPENAI_API_KEY) to a valid key, then restart `herma up`",
        )
    if response.status_code == 404:
        return note(
            "provider",
            f"{place} answers but lists no models",
            "check that HERMA_MODEL_BASE_URL ends in /v1; some servers have no list",
        )
    if response.status_code != 200:
        return problem("provider", f"{place} answers HTTP {response.status_code}", "look at its log")
    return _listed(place, model, response)


def _listed(place: str, model: str, response: httpx.Response) -> Finding:
    try:
        names = {str(entry["id"]) for entry in response.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return problem(
            "provider",
            f"{place} answers with something else than a list of models",
            "is it a model server?",
        )
    if names and model not in names:
        some = one_line(", ".join(sorted(names)[:5]), 200)
        return problem(
            "provider", f"{place} has no model {one_line(model, 80)}", f"HERMA_MODEL is one of: {some}"
        )
    return ok("provider", f"{place} answers, takes the key, and has {one_line(model, 80)}")
