"""compose.yaml on a real engine: its rights, a turn, deaths in the middle of one, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from herma.local.processes import start_time
from tests.support.compose import ComposeProject, build_images, compose_command, docker
from tests.support.platform import Client, docker_answers
from tests.support.waiting import eventually

# Building the images may take minutes on a machine that has none of them.
pytestmark = [pytest.mark.long, pytest.mark.docker, pytest.mark.timeout(1500)]

_ROOT = Path(__file__).resolve().parents[2]
_ERRANDS = {"migrate", "bootstrap"}
_SERVICES = {"postgres", "session-authority", "memory", "tool-sandbox", "agent-runner", "gateway"}
_SANDBOX_UID, _BROKER_UID = 10101, 10102
_PROBE = "import socket; socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock'); print('open')"


@pytest.fixture(scope="module")
def project() -> Iterator[ComposeProject]:
    command = compose_command()
    if command is None or not docker_answers():
        pytest.skip("no Docker engine with Compose")
    build_images()
    found = ComposeProject(command)
    try:
        found.up()
        yield found
    finally:
        found.close()


@pytest.fixture(autouse=True)
async def healthy(project: ComposeProject) -> None:
    """Each test begins with all services up and well."""
    await eventually(lambda: states(project) == dict.fromkeys(_SERVICES, "healthy"), "all are well", 120)


def states(project: ComposeProject) -> dict[str, str]:
    """Health of what stays."""
    return {
        name: entry["State"]["Health"]["Status"]
        for name, entry in project.containers().items()
        if name not in _ERRANDS
    }


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def role(pid: int) -> str:
    """Which of the three programs of tool-sandbox's container a process is."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2].decode()


async def wait_running(client: Client, turn_id: str) -> None:
    """Waits until the turn's first call runs."""

    async def running() -> bool:
        calls = (await client.turn(turn_id))["calls"]
        return bool(calls) and calls[0]["state"] == "running"

    await eventually(running, "a call runs", 60)


def test_nothing_starts_without_its_secrets(project: ComposeProject) -> None:
    done = project.compose("config", env_file=False, check=False)
    assert done.returncode != 0
    assert "run `herma compose-env` first" in done.stderr
    for name in (".env", "admin.key"):
        assert (project.folder / name).stat().st_mode & 0o777 == 0o600
        ignored = subprocess.run(["git", "check-ignore", "-q", name], cwd=_ROOT, check=False)
        assert ignored.returncode == 0


def test_the_errands_were_done(project: ComposeProject) -> None:
    found = project.containers()
    assert found.keys() == _SERVICES | _ERRANDS
    for name in _ERRANDS:
        state = found[name]["State"]
        assert (state["Status"], state["ExitCode"]) == ("exited", 0), name


def test_the_engine_confines_every_container(project: ComposeProject) -> None:
    having, capable, in_host = set(), {}, set()
    for name, entry in project.containers().items():
        host = entry["HostConfig"]
        assert host["Privileged"] is False, name
        assert host["ReadonlyRootfs"] is True, name
        assert host["CapDrop"] == ["ALL"], name
        # The engine itself takes the label off what shares the host's process namespace.
        own = {"label=disable"} if name == "tool-sandbox" else set()
        assert set(host["SecurityOpt"]) - own == {"no-new-privileges:true"}, name
        assert host["Memory"] > 0, name
        assert host["PidsLimit"] > 0, name
        assert host["NanoCpus"] > 0, name
        assert not host["Devices"], name
        if host["CapAdd"]:
            capable[name] = sorted(host["CapAdd"])
        if host["PidMode"] == "host":
            in_host.add(name)
        if any("docker.sock" in mount["Source"] + mount["Destination"] for mount in entry["Mounts"]):
            having.add(name)
        published = {key: value for key, value in (host["PortBindings"] or {}).items() if value}
        if name == "gateway":
            address = {"HostIp": "127.0.0.1", "HostPort": str(project.port)}
            assert published == {"8700/tcp": [address]}
        else:
            assert published == {}, name
        networked = name in {"gateway", "agent-runner"}
        assert (host["NetworkMode"] != "none") == networked, name
    assert having == {"tool-sandbox"}
    assert in_host == {"tool-sandbox"}
    assert {name: [c.removeprefix("CAP_") for c in found] for name, found in capable.items()} == {
        "tool-sandbox": ["CHOWN", "SETGID", "SETUID"]
    }


def test_no_process_is_root_or_has_a_capability(project: ComposeProject) -> None:
    seen = 0
    for name in sorted(_SERVICES):
        for pid in project.pids(name):
            try:
                found = status(pid)
            except FileNotFoundError:
                continue  # a health check that has ended
            if "setpriv" in Path(f"/proc/{pid}/comm").read_text():
                continue  # the health check of tool-sandbox, on its way to that user
            assert "0" not in found["Uid"].split(), (name, found["Name"])
            assert int(found["CapEff"], 16) == 0, (name, found["Name"])
            assert int(found["CapPrm"], 16) == 0, (name, found["Name"])
            assert found["NoNewPrivs"] == "1"
            seen += 1
    assert seen >= len(_SERVICES) + 2


def test_only_the_broker_can_open_the_engine_s_socket(project: ComposeProject) -> None:
    container = project.container("tool-sandbox")["Id"]
    processes = {role(pid): pid for pid in project.pids("tool-sandbox")}
    service = processes["herma.tool_sandbox"]
    broker = processes["herma.tool_sandbox.broker"]
    group = Path("/var/run/docker.sock").stat().st_gid
    assert set(status(service)["Uid"].split()) == {str(_SANDBOX_UID)}
    assert set(status(broker)["Uid"].split()) == {str(_BROKER_UID)}
    assert status(broker)["Groups"].split() == [str(group)]
    for other in (service, processes["herma.tool_sandbox.init"]):
        assert status(other)["Groups"].split() == []
        assert str(group) not in status(other)["Gid"].split()

    def probe(pid: int) -> subprocess.CompletedProcess[str]:
        """Opens the socket with the very ids of a process, in its container."""
        found = status(pid)
        groups = ",".join(found["Groups"].split())
        ids = [f"--reuid={found['Uid'].split()[1]}", f"--regid={found['Gid'].split()[1]}"]
        ids.append(f"--groups={groups}" if groups else "--clear-groups")
        return subprocess.run(
            ["docker", "exec", container, "setpriv", *ids, "python3", "-c", _PROBE],
            capture_output=True,
            text=True,
            check=False,
        )

    refused = probe(service)
    assert refused.returncode != 0
    assert "PermissionError" in refused.stderr
    assert "PermissionError" in probe(processes["herma.tool_sandbox.init"]).stderr
    assert probe(broker).stdout == "open\n"


def test_each_of_the_two_knows_its_own_secrets_alone(project: ComposeProject) -> None:
    known = {}
    for pid in project.pids("tool-sandbox"):
        known[role(pid)] = Path(f"/proc/{pid}/environ").read_text()
    assert "HERMA_DATABASE_URL" in known["herma.tool_sandbox"]
    assert "HERMA_DATABASE_URL" not in known["herma.tool_sandbox.broker"]
    assert "agent-runner>tool-sandbox" not in known["herma.tool_sandbox.broker"]


def test_the_image_has_no_tools_to_build_with_and_says_what_it_is(project: ComposeProject) -> None:
    container = project.container("memory")["Id"]
    tools = "for tool in gcc cc g++ make ld git curl; do command -v $tool; done; true"
    assert docker("exec", container, "sh", "-c", tools) == ""
    listed = docker(
        "exec", container, "python3", "-c",
        "from importlib import metadata as m\n"
        "for d in m.distributions(path=['/opt/herma/site']): print(d.metadata['Name'], d.version)",
    )  # fmt: skip
    done = subprocess.run(
        ["python3", str(_ROOT / "scripts/runtime_requirements.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    locked = {(n.replace("_", "-"), v) for n, v in re.findall(r"^(\S+)==(\S+)", done.stdout, re.M)}
    assert {
        (line.split()[0].lower().replace("_", "-"), line.split()[1]) for line in listed.splitlines()
    } == locked
    labels = project.container("memory")["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "herma"
    assert labels["org.opencontainers.image.version"] == "0.1.0"
    assert re.fullmatch(r"[0-9a-f]{40}", labels["org.opencontainers.image.revision"])


async def test_a_turn_runs_in_a_sibling_container_and_a_tenant_s_key_works(
    project: ComposeProject,
) -> None:
    async with project.client() as operator:
        response = await operator.http.post("/v1/tenants", json={"name": project.name})
        assert response.status_code == 201, response.text
        key = response.json()["key"]
    async with project.client(key) as client:
        session = await client.session()
        before = set(project.sandboxes())
        answer = await client.answer(session, "$ id -u; hostname; echo kept > file", 90)
        assert "10001\nsandbox" in answer
        (made,) = set(project.sandboxes()) - before
        found: dict[str, Any] = docker_inspect(made)
        assert found["Config"]["Image"] == "herma-base:dev"
        assert found["HostConfig"]["NetworkMode"] == "none"
        assert "docker.sock" not in str(found["Mounts"])
        assert "kept" in await client.answer(session, "$ cat file", 90)
    async with project.client() as operator:
        assert (await operator.http.get(f"/v1/sessions/{session}")).status_code == 404
    async with Client(f"http://127.0.0.1:{project.port}", "") as nobody:
        assert (await nobody.http.get("/v1/sessions")).status_code == 401


def docker_inspect(container: str) -> dict[str, Any]:
    """What the engine says of a container."""
    found: dict[str, Any] = json.loads(docker("inspect", container))[0]
    return found


@pytest.mark.parametrize("victim", ["agent-runner", "tool-sandbox"])
async def test_a_container_that_dies_in_the_middle_of_a_turn_costs_nothing(
    project: ComposeProject, victim: str
) -> None:
    async with project.client() as client:
        session = await client.session()
        admitted = await client.submit(session, "$ sleep 8; echo run >> runs; cat runs")
        await wait_running(client, admitted["turn_id"])
        entry = project.container(victim)
        os.kill(entry["State"]["Pid"], signal.SIGKILL)
        turn = await client.ended(admitted["turn_id"], 120)
        assert turn["state"] == "completed", project.logs()
        if victim == "agent-runner":
            assert turn["attempt"] >= 2
        answer = (await client.transcript(session))[-1]["content"]
        assert answer.split("[exit code 0]")[1].split() == ["run"]
        again = await eventually(
            lambda: found if (found := project.container(victim))["State"]["Running"] else None,
            f"{victim} is started again",
            60,
        )
        assert again["State"]["StartedAt"] != entry["State"]["StartedAt"]


async def test_a_broker_that_dies_takes_its_container_along_and_both_come_back(
    project: ComposeProject,
) -> None:
    processes = {role(pid): pid for pid in project.pids("tool-sandbox")}
    started = {name: start_time(pid) for name, pid in processes.items()}
    os.kill(processes["herma.tool_sandbox.broker"], signal.SIGKILL)

    def gone() -> bool:
        return all(start_time(pid) != started[name] for name, pid in processes.items())

    await eventually(gone, "the others end, too", 60)
    await eventually(lambda: project.container("tool-sandbox")["State"]["Running"], "it comes back", 60)
    async with project.client() as client:
        assert "back" in await client.answer(await client.session(), "$ echo back", 90)


async def test_database_and_workspaces_are_backed_up_as_the_documents_say(
    project: ComposeProject,
) -> None:
    async with project.client() as client:
        await client.answer(await client.session(), "$ echo kept > precious", 90)
    told = (_ROOT / "docs/compose.md").read_text()
    script = re.search(r"```sh\n(umask 077\n.*?)```", told, re.DOTALL)
    assert script is not None
    shell = script[1].replace("docker compose", project.line)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", shell],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert (project.folder / "herma.dump").read_bytes().startswith(b"PGDMP")
    saved = [file.read_bytes() for file in project.folder.glob(f"herma-{project.installation}-ws-*.tar")]
    assert any(b"precious" in content for content in saved)


async def test_down_leaves_data_alone_and_nothing_else(project: ComposeProject) -> None:
    async with project.client() as client:
        session = await client.session()
        await client.answer(session, "$ echo kept > file", 90)
        working = await client.session()
        admitted = await client.submit(working, "$ sleep 120")
        await wait_running(client, admitted["turn_id"])
    assert project.sandboxes()
    pids = [pid for name in _SERVICES for pid in project.pids(name)]
    ids = {pid: start_time(pid) for pid in pids}
    await asyncio.to_thread(project.compose, "down")
    assert project.leftovers() == []
    assert [pid for pid, started in ids.items() if started and start_time(pid) == started] == []
    assert any(name.endswith("_database") for name in project.volumes())
    await asyncio.to_thread(project.up)
    async with project.client() as client:
        assert "kept" in await client.answer(session, "$ cat file", 90)
        # Its sandbox went down with the platform: nobody claims to know what became of the command.
        turn = await client.ended(admitted["turn_id"], 120)
        assert turn["calls"][0]["state"] == "outcome_unknown"


async def test_down_with_volumes_and_the_workspaces_leaves_nothing(project: ComposeProject) -> None:
    await asyncio.to_thread(project.compose, "down", "--volumes")
    workspaces = project.volumes()
    assert all(name.startswith(f"herma-{project.installation}-ws-") for name in workspaces)
    if workspaces:
        docker("volume", "rm", *workspaces)  # as the documents say
    assert project.leftovers() == []
    assert project.volumes() == []
    await asyncio.to_thread(project.up)
