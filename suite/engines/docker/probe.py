"""Short containers that inspect the machine, its GPUs, or an image."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from suite.engines.docker.client import Daemon, Image
from suite.engines.docker.container import Container, Labels
from suite.engines.docker.volumes import UID, archive, fetch
from suite.engines.errors import EngineLost
from suite.engines.recipe import IMAGE_WORKER, OURS, Recipe, base_image
from suite.errors import EngineError
from suite.paths import WORKER, tree_sha256
from suite.worker import host

TIMEOUT_S = 60.0
SOURCE = "dlsuite-host"  # the folder of host.py in the container, a base image has no worker
HINT = "dlsuite images build --fresh"
CHECK_TIMEOUT_S = 300.0  # importing TensorFlow from a cold disk is slow


class Probe:
    """Runs short containers of one session."""

    def __init__(self, daemon: Daemon, session_id: str, labels: Labels) -> None:
        self._daemon = daemon
        self._session_id = session_id
        self._labels = {**labels, "dlsuite": "helper"}

    def machine(
        self, image_id: str, gpus: dict[str, Any], limits: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The description by worker/host.py in a container with these `gpus` and `limits`.

        Both are options of docker.spec.
        """
        command = ["python3", "-m", "suite.worker.host", *(["--gpus"] if gpus else [])]
        environment = {"PYTHONPATH": f"/{SOURCE}"}
        options = {"network_mode": "none", "environment": environment, **gpus, **(limits or {})}
        with self._container(image_id, command, **options) as container:
            container.put("/", _source_of_host())
            container.start()
            state = container.wait(TIMEOUT_S)
            output, errors = container.output()
        if state is None or state.exit_code:
            lines = errors.decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"no result within {TIMEOUT_S:.0f} s"
            raise EngineError(f"a container cannot inspect the machine: {reason}", hint=HINT)
        facts: dict[str, Any] = json.loads(output)
        return facts

    def require_gpus(
        self, options: Sequence[dict[str, Any]]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The first of the options that give a container GPUs, and the GPUs that it sees.

        Raise EngineError if the engine grants none of them.
        """
        base = base_image()
        image = next(iter(self._daemon.images(OURS)), None) or self._daemon.image(base)
        if image is None:
            self._daemon.pull(base)
        refusals = []
        for gpus in options:
            try:
                found = self.machine(image.image_id if image else base, gpus)
            except EngineLost:
                raise
            except EngineError as error:
                refusals.append(str(error))
                continue
            if not found["gpus"]:
                reason = f" ({found['gpus_problem']})" if found["gpus_problem"] else ""
                raise EngineError(
                    f"GPUs were requested, but a container sees none{reason}",
                    hint="nvidia-smi on the engine's machine shows whether the driver works",
                )
            return gpus, found["gpus"]
        raise EngineError(
            f"the engine cannot provide the requested GPUs: {'; by CDI: '.join(refusals)}",
            hint="install NVIDIA's container toolkit for the engine, or omit --gpus",
        )

    def image(self, recipe: Recipe, image: Image, worker_sha256: str, **options: Any) -> str | None:
        """The defect of an image, if any: another worker, or a framework that fails to import."""
        module = "from suite.worker.frameworks import main_module"
        code = f"{module}; print(main_module({recipe.framework!r}).version())"
        with self._container(image.image_id, ["python", "-c", code], **options) as container:
            with tempfile.TemporaryDirectory() as folder:
                fetch(container, IMAGE_WORKER, Path(folder))
                if tree_sha256(Path(folder) / "worker") != worker_sha256:
                    return "its worker differs from the one that its label names"
            container.start()
            state = container.wait(CHECK_TIMEOUT_S)
            if state is None or state.exit_code:
                lines = container.output()[1].decode(errors="replace").strip().splitlines()
                return f"{recipe.manifest.title} fails to import: {''.join(lines[-1:])}"
        return None

    @contextmanager
    def _container(self, image: str, command: list[str], **options: Any) -> Iterator[Container]:
        """A container, not started, which is removed at the end of the block."""
        container = self._daemon.create(
            image,
            name=f"dlsuite-probe-{self._session_id}-{time.monotonic_ns()}",
            labels=self._labels,
            entrypoint=command,
            command=[],
            **options,
        )
        try:
            yield container
        finally:
            container.remove()


def _source_of_host() -> IO[bytes]:
    """A tar archive with worker/host.py and what it imports, as a package."""
    entries = {f"{SOURCE}/suite/__init__.py": b""}
    for module in host.MODULES:
        name = f"worker/{module}.py"
        entries[f"{SOURCE}/suite/{name}"] = (WORKER.parent / name).read_bytes()
    return archive(entries, uid=UID)
