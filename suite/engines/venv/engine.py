"""The venv engine: each worker is a process in its framework's virtual environment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from suite.engines import accelerators, cuda
from suite.engines.base import (
    LOOPBACK,
    EngineName,
    Network,
    OnLine,
    Outcome,
    Prepared,
    WorkerRun,
)
from suite.engines.gpus import Gpus, visible
from suite.engines.venv import environments
from suite.engines.venv.output import lines_of
from suite.errors import EngineError
from suite.manifests.devices import KINDS, DeviceKind
from suite.manifests.frameworks import FrameworkManifest
from suite.messages import Notify
from suite.paths import WORKER, home, part_of, tree_files, tree_sha256
from suite.protocol import trial_file
from suite.worker import host

TERM_GRACE_S = 3.0
# Environment variables that a worker inherits: for compilers, the home folder and the language.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "CC", "CXX", "DLSUITE_JULIA")
# The user's Python (--python) may need it. Elsewhere the libraries of another CUDA would come
# before those of the lock.
LIBRARIES = "LD_LIBRARY_PATH"


class VenvEngine:
    """Runs workers as processes; see engines.base.Engine."""

    name: EngineName = "venv"

    def __init__(
        self,
        worker: Path = WORKER,
        *,
        gpus: Gpus | None = None,
        tpus: int = 0,
        pythons: Mapping[str, Path] | None = None,
    ) -> None:
        """`pythons`: the user's interpreters, by framework; others get a virtual environment.

        Raise EngineError if the machine does not have the requested GPUs or TPUs.
        """
        if os.pathsep in str(home()):  # PYTHONPATH cannot have it, nor can a virtual environment
            raise EngineError(
                f"the path {home()} has a colon", hint="set DLSUITE_HOME to a folder without one"
            )
        self.worker = worker
        self._pythons = pythons or {}
        self.worker_sha256 = tree_sha256(worker)
        self.host = host.describe(gpus=gpus is not None)
        problem = self.host.pop("gpus_problem")
        self.host["gpus"] = visible(gpus, self.host["gpus"], problem)
        if tpus:
            self.host["tpus"] = accelerators.chosen(tpus)
        if problem:  # of other GPUs than the chosen ones
            self.host["gpus_problem"] = problem
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._builds = environments.Builds()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def prepare(self, manifest: FrameworkManifest, notify: Notify) -> Prepared:
        python = self._pythons.get(manifest.name)
        if python:
            return environments.of_user(manifest, python)
        cuda.require(manifest, self.host["gpus"], notify)
        kind = self._kind(manifest)
        return environments.ready(manifest, notify, kind=kind, builds=self._builds)

    def is_prepared(self, manifest: FrameworkManifest) -> bool:
        if manifest.name in self._pythons:
            return True
        return environments.needs_nothing(manifest, self._kind(manifest))

    def _kind(self, manifest: FrameworkManifest) -> DeviceKind:
        """Whose lock the framework gets; one that does not know the devices computes on the CPU."""
        for kind, each in KINDS.items():
            known = not each.frameworks or manifest.name in each.frameworks
            if kind != "cpu" and self.host.get(each.facts) and known:
                return kind
        return "cpu"

    def stop(self) -> None:
        self._builds.stop()
        self._stopped = True
        for process in list(self._running):
            _kill(process)

    def run(self, worker: WorkerRun, on_line: OnLine) -> Outcome:
        with worker.log.open("wb") as stderr, self._process(worker, stderr.fileno()) as process:
            expired = threading.Event()

            def expire() -> None:
                expired.set()
                _kill(process)

            if worker.place:
                worker.place.stop.on_call(lambda: _kill(process))
            deadline = threading.Timer(worker.deadline_s, expire)
            deadline.start()
            try:
                for line in lines_of(process):
                    on_line(line)
                exit_code = process.wait()
            finally:
                deadline.cancel()
        return self._outcome(exit_code, expired=expired.is_set())

    def _outcome(self, exit_code: int, *, expired: bool) -> Outcome:
        """How a worker ended, by the exit code of its command."""
        return Outcome(exit_code=exit_code, end="timeout" if expired else "exited")

    def _command(self, worker: WorkerRun) -> list[str]:
        """The command that runs the worker."""
        return [str(worker.prepared.python), "-m", "suite.worker", str(worker.folder)]

    @contextmanager
    def network(self, name: str, nodes: int) -> Iterator[Network]:
        yield Network(name=None, hosts=(LOOPBACK,) * nodes)

    @contextmanager
    def _process(self, worker: WorkerRun, stderr: int) -> Iterator[subprocess.Popen[bytes]]:
        """The worker's process, in a group that is killed at the end of the block."""
        # A new TMPDIR for each process: a compiler's cache of another run would hide the cost of
        # the first step. It is not in the trial's folder: that path is too long for a socket.
        temporary = tempfile.TemporaryDirectory(prefix="dlsuite-", ignore_cleanup_errors=True)
        process = subprocess.Popen(
            self._command(worker),
            cwd=worker.folder,
            env={
                **_libraries(worker.prepared),
                **self.environment(worker.folder),
                "TMPDIR": temporary.name,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        self._running.add(process)
        if self._stopped:
            _kill(process)
        try:
            yield process
        finally:
            self._running.discard(process)
            _kill(process)
            if process.stdout:
                process.stdout.close()
            temporary.cleanup()

    def environment(self, folder: Path) -> dict[str, str]:
        """The environment variables of a worker, without TMPDIR."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {
            **inherited,
            **trial_file.read(folder)["environment"],
            "CUDA_VISIBLE_DEVICES": ",".join(gpu["uuid"] for gpu in self.host["gpus"]),
            **accelerators.visible(self.host.get("tpus") or []),
            "PYTHONPATH": str(self.staged()),
            "PYTHONNOUSERSITE": "1",
        }

    def staged(self) -> Path:
        """A copy of the worker without the rest of the suite, which it must not import.

        Raise EngineError where the worker is no longer the one that the engine started with.
        """
        folder = home() / "workers" / self.worker_sha256[:12]
        if not folder.exists():
            part = part_of(folder)
            (part / "suite").mkdir()
            (part / "suite" / "__init__.py").touch()
            for file in tree_files(self.worker):  # their modes are those of the umask
                target = part / "suite" / "worker" / file.relative_to(self.worker)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            if tree_sha256(part / "suite" / "worker") != self.worker_sha256:
                shutil.rmtree(part)
                raise EngineError(
                    "the source of the worker changed since the command started",
                    hint="run the command again",
                )
            try:
                part.rename(folder)
            except OSError:  # another process or thread made it first
                shutil.rmtree(part)
        return folder


def _libraries(prepared: Prepared) -> dict[str, str]:
    """The search path of libraries: all of it for the user's Python.

    For an environment of the suite, only folders with the library of an interpreter itself.
    """
    folders = [each for each in os.environ.get(LIBRARIES, "").split(os.pathsep) if each]
    if not prepared.own_python:
        folders = [each for each in folders if _is_of_python(Path(each))]
    return {LIBRARIES: os.pathsep.join(folders)} if folders else {}


def _is_of_python(folder: Path) -> bool:
    """Whether a folder has libpython, and no library of CUDA."""
    return any(folder.glob("libpython3*.so*")) and not any(folder.glob("libcud*.so*"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children: SIGTERM, then SIGKILL."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
        except ProcessLookupError:
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=TERM_GRACE_S)
    process.wait()
