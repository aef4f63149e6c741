"""The commands `shell` and `clean`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Annotated

import typer

from suite.cli.groups import Resources
from suite.cli.options import GpuChoice, MemoryLimit
from suite.cli.session import progress
from suite.datasets import library
from suite.engines import sessions
from suite.engines.errors import EngineLost, FrameworkUnavailable
from suite.errors import EngineError
from suite.manifests import catalog
from suite.protocol.expansion import parse

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"  # of an engine without DOCKER_HOST


def shell(
    framework: Annotated[str, typer.Argument(help="The framework (dlsuite list).")],
    command: Annotated[list[str] | None, typer.Argument(help="Instead of a shell.")] = None,
    dataset: Annotated[str, typer.Option(help="The dataset in /data.")] = "mnist",
    gpus: GpuChoice = "0",
    memory: MemoryLimit = None,
) -> None:
    """Open a framework's container as a trial has it: data in /data, the worker on its path.

    Example: dlsuite shell pytorch
    """
    from suite.engines.docker.engine import DockerEngine

    name, *_ = parse(framework, catalog.frameworks(), catalog.tracks())
    client = shutil.which("docker") or shutil.which("podman")
    if client is None:
        raise EngineError(
            "a shell needs the engine's own client, docker or podman, and neither is installed",
            hint="install Docker's client (docker-ce-cli, docker-cli or docker.io)",
        )
    session_id = sessions.new_id()
    settings = Resources(gpus=gpus, memory=memory).options().settings()
    with sessions.session(session_id), DockerEngine(session_id, settings) as engine:
        with progress() as live:
            try:
                prepared = engine.prepare(catalog.framework(name), live.notify)
            except FrameworkUnavailable as error:
                raise EngineError(str(error), hint=error.hint) from None
            data = library.ready(catalog.dataset(dataset), live.notify)
        tty = sys.stdin.isatty()
        with engine.shell(prepared, data, command or ["bash"], tty=tty) as container:
            # The SDK has no terminal support, so the client attaches to the container.
            attach = [client, "start", "--attach", "--interactive", container.container_id]
            exit_code = subprocess.run(attach, check=False).returncode
    raise typer.Exit(exit_code)  # in the block it would leave the session's file


def clean(
    data: Annotated[bool, typer.Option("--data", help="Data volumes too.")] = False,
    others: Annotated[
        bool, typer.Option("--others", help="Also the leftovers of other machines or caches.")
    ] = False,
) -> None:
    """Remove what killed or kept runs left on the engine and in the cache.

    Resume interrupted runs first: their leftovers are removed too.
    """
    from suite.engines.docker.client import Daemon
    from suite.engines.docker.engine import remove_all
    from suite.engines.docker.spec import SESSION

    kept = dict.fromkeys(("active", "unknown"), 0)
    removed, cleaned = 0, None
    try:
        daemon = Daemon()
    except EngineLost as error:
        print(f"no engine to clean: {error}")
    else:
        labelled = [c.labels for c in daemon.containers({SESSION: ""})]
        labelled += daemon.volumes({SESSION: ""}).values()
        labelled += daemon.networks({SESSION: ""}).values()
        for session_id in {labels[SESSION] for labels in labelled}:
            state = sessions.state(session_id)
            if state == "stale" or (state == "unknown" and others):
                removed += remove_all(daemon, {SESSION: session_id})
            else:
                kept[state] += 1
        if data and not kept["active"]:  # a run that is active knows its data volumes
            removed += remove_all(daemon, {"dlsuite": "data"})
        cleaned = os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS
        daemon.close()
    folders = sessions.remove_stale(cleaned)
    parts = f"{removed} containers, volumes and networks, and {folders} work folders"
    print(f"removed {parts} of ended runs")
    if kept["active"]:
        print(f"kept: {kept['active']} active sessions{' and the data' if data else ''}")
    if kept["unknown"]:
        print(
            f"kept: {kept['unknown']} sessions of other machines or caches;"
            " dlsuite clean --others removes them too"
        )
