"""Brings the whole platform up on one machine, and down again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from urllib.parse import urlsplit

import docker
import docker.errors
import requests

import herma
from herma.common.errors import HermaError, Unavailable
from herma.common.postgres.migrations import migrate
from herma.local.bootstrap import bootstrap
from herma.local.installation import Installation
from herma.local.model_route import ModelRoute
from herma.local.ports import Ports
from herma.local.postgres import EmbeddedPostgres
from herma.local.processes import start_time
from herma.local.services import Fleet, make_plan
from herma.local.settings import UpSettings
from herma.local.supervisor import Program, Supervisor, base_environment
from herma.local.up_file import UpFile
from herma.memory.app import SCHEMA as MEMORY
from herma.session_authority.app import SCHEMA as AUTHORITY
from herma.tool_sandbox.app import SCHEMA as SANDBOX

SCHEMAS = (AUTHORITY, SANDBOX, MEMORY)


class BackendRefused(HermaError):
    """The sandbox backend that was asked for cannot be used."""

    reason = "BACKEND_REFUSED"


class Platform:
    """Everything that `herma up` runs.

    Args:
        say: Shows a line to the person who started it.
    """

    def __init__(
        self,
        installation: Installation,
        settings: UpSettings,
        say: Callable[[str], None],
        model: ModelRoute,
        ports: Ports,
        *,
        authorities: int = 1,
        runners: int = 1,
        gateways: int = 1,
    ) -> None:
        self._installation = installation
        self._settings = settings
        self._say = say
        self._model = model
        self._counts = (authorities, runners, gateways)
        self._file = UpFile.of(installation.folder)
        self._supervisor = Supervisor(self._write_up_file)
        self._ports = ports
        self._ready = False
        self.backend = ""
        self.url = ""

    @property
    def model_line(self) -> str:
        """Which model answers, in words."""
        return self._model.line

    async def start(self) -> None:
        """Starts the database and the services, and waits until all serve.

        Raises:
            HermaError: when something cannot be started; what was started is stopped by `stop`.
        """
        self._file.remove()
        self.backend = await asyncio.to_thread(choose_backend, self._settings, self._say)
        admin_url = await self._start_database()
        for schema in SCHEMAS:
            await migrate(admin_url, schema, self._installation.database_password(schema.schema))
        authorities, runners, gateways = self._counts
        plan = make_plan(
            self._ports,
            self.backend,
            self._settings.sandbox_image,
            admin_url,
            self._settings.http_port,
            authorities,
            runners,
            gateways,
            self._model,
        )
        self.url = f"http://127.0.0.1:{plan.http_port}"
        fleet = Fleet(self._installation, plan)
        await self._supervisor.start(
            [*fleet.authorities(), fleet.memory(), fleet.broker(), *fleet.local_model()]
        )
        await asyncio.gather(
            self._bootstrap(plan.authority_address),
            self._supervisor.start([fleet.sandbox()]),
        )
        await self._supervisor.start([*fleet.runners(), *fleet.gateways()])

    def announce(self) -> None:
        """The platform is ready: `up.json` says so from now on."""
        self._ready = True
        self._write_up_file()

    async def stop(self) -> None:
        """Drains the services, then stops the database."""
        self._ready = False
        self._file.remove()
        await self._supervisor.drain()
        if self.backend == "docker":
            # Nobody speaks to them any more; the workspaces, volumes, stay.
            await asyncio.to_thread(remove_containers, self._installation.id)
        self._ports.close()

    async def _start_database(self) -> str:
        if self._settings.database_url is not None:
            return self._settings.database_url.get_secret_value()
        server = EmbeddedPostgres(
            self._installation.folder / "postgres",
            self._ports.take(),
            self._installation.database_password("superuser"),
        )
        await self._supervisor.start(
            [
                Program(
                    name="postgres",
                    argv=server.argv(),
                    environment=base_environment(),
                    log=self._installation.folder / "logs" / "postgres.log",
                    ready=server.answers,
                    address=urlsplit(server.url).netloc.rpartition("@")[2],
                    before=server.prepare,
                    stop=signal.SIGINT,
                    orphaned=signal.SIGINT,
                )
            ]
        )
        return server.url

    async def _bootstrap(self, authority_address: str) -> None:
        await bootstrap(
            authority_address,
            self._installation.keys_of("operator"),
            self._installation.operator_key(),
        )

    def _write_up_file(self) -> None:
        if not self._ready:
            return
        self._file.write(
            {
                "http": self.url,
                "services": [
                    {
                        "name": child.program.name,
                        "pid": child.pid,
                        "address": child.program.address,
                    }
                    for child in self._supervisor.children
                ],
                "backend": self.backend,
                "model": self._model.line,
                "model_choice": self._model.choice.value,
                "version": herma.__version__,
                "installation": self._installation.id,
                "pid": os.getpid(),
                "started": start_time(os.getpid()),
            }
        )


def choose_backend(settings: UpSettings, say: Callable[[str], None]) -> str:
    """The sandbox backend.

    Raises:
        BackendRefused: when the one that was asked for cannot be used.
    """
    wanted = settings.sandbox_backend
    if wanted == "kubernetes":
        raise BackendRefused("`herma up` runs no pods; the backend is `docker` or `local`")
    if wanted == "local":
        say(LOCAL_WARNING)
        return "local"
    try:
        problem = docker_problem(settings.sandbox_image)
    except Unavailable as error:
        if wanted == "docker":
            raise BackendRefused("no Docker engine answers") from error
        say(LOCAL_WARNING)
        return "local"
    if problem:
        raise BackendRefused(problem)
    return "docker"


LOCAL_WARNING = (
    "WARNING: no isolation. The sandbox backend is `local`: tools run as plain processes of this user. "
    "Use it for trusted development only; start a Docker engine for real sandboxes."
)


def remove_containers(installation: str) -> None:
    """Removes the containers of one installation; best effort, the next start sweeps too."""
    try:
        client = docker.from_env(timeout=20)
        for container in client.containers.list(
            all=True, ignore_removed=True, filters={"label": f"herma.deployment={installation}"}
        ):
            container.remove(force=True)
    except (docker.errors.DockerException, requests.RequestException, OSError):
        return
    client.close()


def docker_problem(image: str) -> str:
    """What is missing on the engine, for people; empty when nothing is.

    Raises:
        Unavailable: when no engine answers.
    """
    try:
        client = docker.from_env(timeout=5)
        client.ping()
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise Unavailable("no Docker engine answers") from error
    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        return (
            f"a Docker engine answers, but the image {image} is missing: run `make images`, "
            "or set HERMA_SANDBOX_BACKEND=local"
        )
    finally:
        client.close()
    return ""
