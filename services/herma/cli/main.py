"""`herma`: nouns and verbs.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 the turn did not complete.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

import herma
from herma.cli import audit, grant, issuer, key, principal, profile, session, tenant, turn
from herma.cli.chat.command import chat
from herma.cli.client import ApiClient, find_platform
from herma.cli.completion import completion
from herma.cli.doctor.command import doctor
from herma.cli.output import Format, Output, say, say_json
from herma.cli.send import send as send_message
from herma.cli.terminal_text import clean, one_line
from herma.cli.up import run_detached, run_down, run_up
from herma.cli.whoami import who_am_i
from herma.common.errors import HermaError
from herma.common.postgres.migrations import migrate as migrate_schema
from herma.local.bootstrap import bootstrap as bootstrap_authority
from herma.local.compose_env import write_compose_env
from herma.local.model_route import ModelChoice
from herma.local.platform import SCHEMAS
from herma.local.settings import BootstrapSettings, UpSettings

app = typer.Typer(
    name="herma", help="Hosts AI agents.", no_args_is_help=True, pretty_exceptions_enable=False
)
for noun in (audit, grant, issuer, key, principal, profile, session, tenant, turn):
    app.add_typer(noun.app, name=noun.__name__.rpartition(".")[2])
app.command("chat")(chat)
app.command("doctor")(doctor)
app.command("whoami")(who_am_i)
app.command("trace")(turn.trace)
app.command("completion")(completion)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Hosts AI agents."""
    if version:
        typer.echo(herma.__version__)
        raise typer.Exit


@app.command()
def up(
    detach: Annotated[bool, typer.Option(help="Return when ready; `herma down` stops it.")] = False,
    runners: Annotated[int, typer.Option(min=1, max=32, help="How many agent-runners.")] = 1,
    authorities: Annotated[
        int, typer.Option(min=1, max=8, help="How many replicas of session-authority.")
    ] = 1,
    gateways: Annotated[int, typer.Option(min=1, max=8, help="How many replicas of gateway.")] = 1,
    model: Annotated[
        ModelChoice,
        typer.Option(
            help="`auto` goes by the environment; `local` runs a small model here (extra `local-model`); "
            "`rehearsal` is no model."
        ),
    ] = ModelChoice.AUTO,
) -> None:
    """Start the whole platform on this machine, run one turn, stay up."""
    settings = UpSettings()
    if detach:
        arguments = [
            f"--runners={runners}",
            f"--authorities={authorities}",
            f"--gateways={gateways}",
            f"--model={model.value}",
        ]
        raise typer.Exit(run_detached(settings, arguments, say))
    raise typer.Exit(
        run_up(settings, say, model, authorities=authorities, runners=runners, gateways=gateways)
    )


@app.command()
def down() -> None:
    """Drain and stop the platform of this data folder."""
    raise typer.Exit(run_down(UpSettings().data_dir, say))


@app.command()
def serve(
    service: Annotated[
        str,
        typer.Argument(
            help="gateway, session-authority, agent-runner, tool-sandbox, tool-sandbox-broker, memory"
        ),
    ],
    with_broker: Annotated[
        bool,
        typer.Option(
            "--with-broker",
            help="tool-sandbox in a container: its broker beside it, each under its own user.",
        ),
    ] = False,
) -> None:
    """Run one service with settings from the environment."""
    modules = {
        "gateway": "herma.gateway",
        "session-authority": "herma.session_authority",
        "agent-runner": "herma.agent_runner",
        "tool-sandbox": "herma.tool_sandbox",
        "tool-sandbox-broker": "herma.tool_sandbox.broker",
        "memory": "herma.memory",
    }
    if service not in modules:
        raise typer.BadParameter("one of " + ", ".join(sorted(modules)))
    if with_broker and service != "tool-sandbox":
        raise typer.BadParameter("only tool-sandbox has a broker", param_hint="--with-broker")
    module = "herma.tool_sandbox.init" if with_broker else modules[service]
    os.execv(sys.executable, [sys.executable, "-m", module])  # noqa: S606  # becomes the service


@app.command()
def migrate() -> None:
    """Bring the database of HERMA_DATABASE_URL (an administrator's) to this release's schemas.

    Passwords of the services' roles come from HERMA_AUTHORITY_PASSWORD, HERMA_SANDBOX_PASSWORD and
    HERMA_MEMORY_PASSWORD; unset ones are left as they are.
    """
    url = UpSettings().database_url
    if url is None:
        raise typer.BadParameter("set HERMA_DATABASE_URL")
    for schema in SCHEMAS:
        password = os.environ.get(f"HERMA_{schema.schema.upper()}_PASSWORD")
        applied = asyncio.run(migrate_schema(url.get_secret_value(), schema, password))
        say(f"{schema.schema}: {len(applied)} applied")


@app.command()
def bootstrap() -> None:
    """Make the tenant `default` and let the operator's key of HERMA_OPERATOR_KEY work; safe to repeat."""
    settings = BootstrapSettings()
    keys = {pair: key.get_secret_value() for pair, key in settings.service_keys.items()}
    operator_key = settings.operator_key.get_secret_value()
    made = asyncio.run(bootstrap_authority(settings.authority_address, keys, operator_key))
    say(f"tenant default: {made}")


@app.command("compose-env")
def compose_env(
    file: Annotated[Path, typer.Option(help="Where to; what it holds already is kept.")] = Path(".env"),
) -> None:
    """Make the secrets that compose.yaml asks for, and admin.key with the operator's key beside them."""
    added = write_compose_env(file)
    say(f"{file}: {len(added)} added" if added else f"{file} has all that compose.yaml asks for")
    say(f"{file.with_name('admin.key')}: the operator's key")


@app.command()
def send(
    message: Annotated[str, typer.Argument(help="What to say; `-` reads standard input.")],
    session: Annotated[str, typer.Option(help="Session to go on with.")] = "",
    profile: Annotated[str, typer.Option(help="Profile of a new session.")] = "",
    output: Output = Format.TEXT,
) -> None:
    """Send one message and show the answer."""
    if session and profile:
        raise typer.BadParameter("a session has its profile already: leave out --profile")
    text = sys.stdin.read() if message == "-" else message
    client = ApiClient(*find_platform())

    def watch(event: dict[str, Any]) -> None:
        if output == Format.TEXT and event["kind"] == "call.proposed":
            typer.echo(one_line(f"[{event['tool']}] {event['arguments']}", 400), err=True)

    reply = send_message(client, text, session, watch, profile)
    if output == Format.JSON:
        say_json(
            {
                "session_id": reply.session_id,
                "turn_id": reply.turn_id,
                "state": reply.state,
                "exit_reason": reply.exit_reason,
                "error": reply.error,
                "text": reply.text,
            }
        )
    elif reply.state == "completed":
        say(reply.text)
    else:
        typer.echo(clean(f"The turn ended as {reply.exit_reason}. {reply.error}"), err=True)
    raise typer.Exit(0 if reply.state == "completed" else 3)


def main() -> None:
    """Runs the command line."""
    try:
        app()
    except HermaError as error:
        typer.echo(clean(f"herma: {error.message}"), err=True)
        sys.exit(1)
    except ValidationError as error:
        problems = "; ".join(f"{item['loc'][0]}: {item['msg']}" for item in error.errors())
        typer.echo(f"herma: the settings are not usable: {problems}", err=True)
        sys.exit(2)
