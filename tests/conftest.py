"""Fixtures: a home of one's own, a small dataset, and workers made to misbehave.

Tests that need a framework use the environments of `make bench`, building them where they are not
there yet; all others get an empty home.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import shutil
import sys
import tempfile
import textwrap
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from suite.datasets import obtain
from suite.datasets.formats import synthetic
from suite.datasets.inputs import Inputs
from suite.engines.base import Prepared
from suite.engines.docker.client import Daemon
from suite.engines.docker.engine import DockerEngine
from suite.engines.options import EngineOptions
from suite.engines.recipe import base_image
from suite.engines.settings import Settings
from suite.engines.venv.engine import VenvEngine
from suite.errors import EngineError, ManifestError
from suite.manifests import catalog, strict
from suite.manifests.datasets import DatasetManifest
from suite.manifests.frameworks import FrameworkManifest
from suite.manifests.strict import Strict
from suite.manifests.suites import SuiteManifest
from suite.manifests.workloads import Repeats, Workload
from suite.messages import Notify
from suite.paths import digest
from suite.protocol import trial_file
from suite.protocol.expansion import expand
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Task
from suite.runner.planfile import Planned
from suite.runner.progress import Messages
from suite.worker import host, nvidia

# Folders whose tests share one Docker engine: they run in one process.
ENGINE_TESTS = (
    *("cdi", "docker", "others"),
    *("test_choice.py", "test_cli_docker.py", "test_containers.py", "test_loopback.py"),
)
# The longest files start first, so that all processes end at about the same time.
LONGEST = (
    "test_cli_docker.py",
    "test_cli.py",
    "test_environments.py",
    "test_selftest.py",
    "test_conformance.py",
)


SMOKE = "pytorch"  # the framework that starts soonest


def each_framework(names: Iterable[str]) -> list[ParameterSet]:
    """The frameworks as parameters of a test; all but one only in `make verify`."""
    return [
        pytest.param(name, marks=() if name.partition(":")[0] == SMOKE else pytest.mark.verify)
        for name in names
    ]


def rest_in_verify(first: object, *others: object) -> list[ParameterSet]:
    """The cases as parameters of a test; all but the first only in `make verify`.

    A case of several parameters is a tuple.
    """
    cases = [each if isinstance(each, tuple) else (each,) for each in (first, *others)]
    marks = ((), *(pytest.mark.verify for _ in others))
    return [pytest.param(*case, marks=mark) for case, mark in zip(cases, marks, strict=True)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    monkeypatch.setenv("DLSUITE_HOME", str(place))
    return place


def pytest_configure(config: pytest.Config) -> None:
    """Let the processes of the tests measure side by side: nothing they assert is a time.

    Each has cores of its own, and so have the workers it starts: two with as many threads as there
    are cores would spin against each other and take many times as long. Where there are more
    processes than cores, several share one.

    Compiled modules are kept: without them, a start of `dlsuite` takes twice as long.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    process = os.environ.get("PYTEST_XDIST_WORKER")
    if process:
        os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="dlsuite-")
        tempfile.tempdir = None
        cores, number = host.cpus(), int(process.removeprefix("gw"))
        processes = min(len(cores), int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores[number % processes :: processes])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first."""
    position = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: position.get(item.path.name, len(LONGEST)))


class ByFile(LoadFileScheduling):
    """The tests of a file run in one process, and all tests that use the engine in the same one.

    pytest-xdist 3.8 ignores its own groups (`--dist loadgroup`) with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = Path(nodeid.split("::")[0])
        return "engine" if uses_engine(file) else str(file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    return ByFile(config, log)


def uses_engine(file: Path) -> bool:
    return bool({file.name, file.parent.name} & {*ENGINE_TESTS})


def pytest_unconfigure(config: pytest.Config) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `docker` or `gpu` are skipped where there is none; where an engine must be, the
    former fail.
    """
    if item.get_closest_marker("gpu") and not nvidia.find().gpus:
        pytest.skip("there is no NVIDIA GPU")
    if item.get_closest_marker("docker") is None:
        return
    assert uses_engine(item.path)
    lacking = no_engine()
    if lacking and os.environ.get("DLSUITE_REQUIRE_DOCKER"):
        pytest.fail(f"DLSUITE_REQUIRE_DOCKER is set, and {lacking}")
    if lacking:
        pytest.skip(lacking)


@functools.cache
def no_engine() -> str | None:
    """Why no container can be run here; None where one can."""
    try:
        daemon = Daemon()
    except EngineError as error:
        return str(error)
    base = base_image()
    there = daemon.image(base) or daemon.pullable(base)
    daemon.close()
    return None if there else f"the base image {base} is not here and cannot be pulled"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address at which `folder` is served on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Silent(Messages):
    """Progress that is shown nowhere."""

    def __init__(self) -> None:
        super().__init__(notify=lambda text: None)


class ScriptEngine(VenvEngine):
    """The real engine, running a script of the test's as the worker."""

    def __init__(self, worker: Path) -> None:
        super().__init__(worker)

    def prepare(self, manifest: FrameworkManifest, notify: Notify) -> Prepared:
        return Prepared(framework=manifest.name, python=Path(sys.executable), lock_sha256="0" * 64)


PROLOGUE = """
import json, os, pathlib, signal, subprocess, sys, time
trial = json.loads((pathlib.Path(sys.argv[1]) / "trial.json").read_text())
results = pathlib.Path(trial["paths"]["results"])
clock_ns = time.monotonic_ns()
def emit(event, **values):
    # At a time at which the blocks before it can have been done.
    global clock_ns
    clock_ns = max(clock_ns + int(values.get("duration_s", 0) * 1e9), time.monotonic_ns())
    if event in ("warmup", "block"):
        values = {"loss": 1.0 / values["step"], "loss_wait_s": 0.0, **values}
    values = {"event": event, "monotonic_ns": clock_ns, **values}
    line = json.dumps(values)
    print(line, flush=True)
    with (results / "events.jsonl").open("a") as file:
        file.write(line + "\\n")
def started():
    emit("started", import_s=0.1, framework_version="1", versions={})
"""


def script_worker(place: Path, text: str) -> Path:
    """A worker that does what the Python `text` says; `results` and `emit` are defined for it."""
    place.mkdir()
    (place / "__main__.py").write_text(PROLOGUE + textwrap.dedent(text), encoding="utf-8")
    (place / "__init__.py").touch()
    return place


TINY = FrameworkManifest(
    name="tiny",
    title="Tiny",
    packages=(),
    python=">=3.11",
    locks=("cpu.txt",),
    variants={"plain": "plain"},
)


TINY_DATA = digest([f"train_inputs.npy {hashlib.sha256(b'pixels').hexdigest()}"])


@dataclass(frozen=True, kw_only=True)
class Tiny:
    """What the small image is made of; its worker does what trial.json's "script" says."""

    worker: Path
    locks: Path

    def engine(self, session_id: str | None = None, **settings: object) -> DockerEngine:
        return DockerEngine(
            session_id or uuid.uuid4().hex[:12],
            Settings(**settings),  # type: ignore[arg-type]
            worker=self.worker,
            locks=self.locks,
        )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    place = tmp_path_factory.mktemp("tiny")
    worker = script_worker(place / "worker", 'exec(trial["script"])')
    locks = place / "locks"
    (locks / "tiny").mkdir(parents=True)
    (locks / "tiny" / "cpu.txt").write_text("# empty\n")
    (locks / "tiny" / "apt.txt").write_text("# empty\n")
    made = Tiny(worker=worker, locks=locks)
    yield made
    if no_engine():
        return
    with made.engine() as engine:
        image = engine.images.current(engine.images.recipe(TINY, "cpu"))
        if image:
            engine.daemon.remove_image(image.image_id)
        for volume, labels in engine.daemon.volumes({"dlsuite": "data"}).items():
            if labels["dlsuite.content"] == TINY_DATA:
                engine.daemon.remove_volume(volume)


@pytest.fixture
def script_engine(tmp_path: Path, home: Path) -> Callable[[str], ScriptEngine]:
    """Makes an engine whose worker is the given Python text."""
    return lambda text: ScriptEngine(script_worker(tmp_path / "script", text))


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str, type[Strict]], str]:
    """The message with which a text is refused, the file's folder left out."""

    def load(text: str, schema: type[Strict] = SuiteManifest) -> str:
        path = tmp_path / "bad.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ManifestError) as caught:
            strict.load(path, schema)
        assert "\n" not in str(caught.value)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return load


@pytest.fixture
def quick() -> Callable[..., Plan]:
    """Plans the quick suite, for some frameworks and as many repeats as wanted."""

    def plan(*frameworks: str, repeats: int = 1, **changes: Any) -> Plan:
        exactly = {"repeats": Repeats(at_least=repeats, at_most=repeats), "tracks": ("equal",)}
        suite = catalog.suite("quick").model_copy(update=exactly | changes)
        return expand(suite, catalog.frameworks(), catalog.tracks(), only=frameworks)

    return plan


def started(plan: Plan) -> Planned:
    """What is written before the runs of a plan in virtual environments."""
    return Planned(
        session_id="a1",
        engine_options=EngineOptions(engine="venv"),
        worker_sha256="0" * 64,
        locks={},
        plan=plan,
    )


def made_up(workload: Workload, place: Path) -> Inputs:
    """Inputs of 200 and 40 made-up samples, in `place`."""
    samples = {"train": 200, "test": 40}
    dataset = synthetic.fitted(workload).model_copy(update={"samples": samples})
    synthetic.write(dataset, place / "data", seed=7)
    return obtain.make(workload, dataset, data=place / "data", seed=3, folder=place / "inputs")


@pytest.fixture
def trial_folder(quick: Callable[..., Plan], tmp_path: Path) -> Path:
    """A trial's folder: LeNet in PyTorch, on 200 and 40 made-up images."""
    planned, folder = quick("pytorch").trials[0], tmp_path / "trial"
    given = made_up(planned.workload, tmp_path)
    task = Task(trial=planned, inputs=given, mode="train", epochs=1)
    trial_file.write(folder, task, cpus=host.cpus())
    return folder


def idx(values: np.ndarray) -> bytes:
    """`values` as an IDX file of unsigned bytes."""
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


@pytest.fixture
def digits(tmp_path: Path) -> tuple[DatasetManifest, Path]:
    """A dataset in MNIST's form, 200 and 40 samples, and the folder of its raw files."""
    real = catalog.dataset("mnist")
    samples = {"train": 200, "test": 40}
    raw = tmp_path / "raw"
    raw.mkdir()
    generator = np.random.default_rng(7)
    files = {}
    for role, file in real.files.items():
        split, kind = role.split("_")
        shape = (samples[split], 28, 28) if kind == "images" else (samples[split],)
        content = idx(generator.integers(0, 10 if kind == "labels" else 256, shape))
        (raw / file.name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        files[role] = file.model_copy(update={"sha256": digest})
    return real.model_copy(update={"samples": samples, "files": files, "sources": ()}), raw
