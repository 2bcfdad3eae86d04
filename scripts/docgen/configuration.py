"""`docs/configuration.md`: every setting, from the settings themselves."""

from __future__ import annotations

from pydantic import SecretStr
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from herma.agent_runner.settings import RunnerSettings
from herma.gateway.settings import GatewaySettings
from herma.local.settings import BootstrapSettings, UpSettings
from herma.memory.settings import MemorySettings
from herma.session_authority.settings import AuthoritySettings
from herma.tool_sandbox.broker.settings import BrokerSettings
from herma.tool_sandbox.settings import SandboxSettings

SECTIONS: tuple[tuple[str, type[BaseSettings]], ...] = (
    ("herma up", UpSettings),
    ("gateway", GatewaySettings),
    ("session-authority", AuthoritySettings),
    ("agent-runner", RunnerSettings),
    ("tool-sandbox", SandboxSettings),
    ("tool-sandbox-broker", BrokerSettings),
    ("memory", MemorySettings),
    ("herma bootstrap", BootstrapSettings),
)
HEAD = """\
# Configuration

Environment variables, generated from the code by `make docs`. `herma up` sets what its services need
and passes on what you set of the rest. The command line finds the platform by `HERMA_URL` and
`HERMA_API_KEY`, else by the data folder.
"""


def render() -> str:
    """The whole document."""
    parts = [HEAD]
    for title, settings in SECTIONS:
        parts.append(f"\n## {title}\n\n| Variable | Default | Meaning |\n|---|---|---|\n")
        for name, field in sorted(settings.model_fields.items()):
            variable = field.validation_alias or f"HERMA_{name.upper()}"
            default = field.default
            if default is PydanticUndefined:
                shown = "`{}`" if field.default_factory else "required"
            elif default is None or default == "" or isinstance(default, SecretStr):
                shown = ""
            else:
                shown = f"`{default}`"
            parts.append(f"| `{variable}` | {shown} | {field.description} |\n")
    return "".join(parts)
