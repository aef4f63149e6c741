"""Containers on a real engine: their options, and every way in which they can end."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from suite.datasets.formats.prepared import DESCRIPTION
from suite.engines.attempt import Attempt
from suite.engines.docker import engine as docker_engine
from suite.engines.docker.client import Daemon
from suite.engines.docker.container import Container
from suite.engines.docker.engine import DockerEngine, require_readable
from suite.engines.docker.spec import SESSION, TRIAL
from suite.engines.errors import EngineLost
from suite.engines.gpus import Gpus
from suite.errors import BusyError, EngineError
from suite.protocol.events import Event
from tests.conftest import TINY, Tiny

pytestmark = pytest.mark.docker
Run = Callable[..., Attempt]


@pytest.fixture
def engine(tiny: Tiny, home: Path) -> Iterator[DockerEngine]:
    with tiny.engine() as entered:
        yield entered


def leftovers(engine: DockerEngine) -> list[str]:
    """The names of the session's containers and volumes, without its input volumes."""
    labels = {SESSION: engine._session_id}
    containers = [container.name for container in engine.daemon.containers(labels)]
    names = containers + list(engine.daemon.volumes(labels))
    return [name for name in names if "inputs" not in name]


def test_a_worker_receives_its_trial_and_its_results_are_collected(
    engine: DockerEngine, run: Run, tmp_path: Path
) -> None:
    passed_on: list[Event] = []
    script = """
started()
print("a library's message", file=sys.stderr)
emit("seen", data=os.listdir("/data"), inputs=sorted(os.listdir("/inputs")), uid=os.getuid(),
     paths=trial["paths"], suite=sorted(os.listdir("/opt/dlsuite/suite")),
     track=os.environ["TRACK"])
(results / "step00_loss.npy").write_bytes(b"x" * 100000)
emit("finished")
"""
    done = run(engine, script, on_event=passed_on.append)
    assert (done.status, done.error) == ("ok", None)
    assert passed_on == done.events
    seen = done.events[1]
    assert set(seen["data"]) == {"train_inputs.npy", ".complete"}
    assert {"order.npy", "weights.npy"} < set(seen["inputs"])
    assert seen["track"] == "equal"
    assert seen["uid"] == 10001 and seen["paths"]["results"] == "/trial/results"
    assert seen["suite"] == ["__init__.py", "__pycache__", "worker"]
    assert (tmp_path / "trial/results/step00_loss.npy").stat().st_size == 100000
    assert (tmp_path / "trial/results/step00_loss.npy").stat().st_uid == os.getuid()
    assert "a library's message" in (tmp_path / "log").read_text()
    assert done.engine_s is not None and done.engine_s > 0
    assert leftovers(engine) == []


def test_a_container_has_only_the_privileges_that_a_worker_needs(
    tiny: Tiny, run: Run, home: Path
) -> None:
    with tiny.engine(keep=True, memory_bytes=2**30) as engine:
        run(engine, 'emit("finished")', name="test-flags")
        container = engine.daemon.containers({TRIAL: "test-flags"})[0]
        attributes = container.inspect()
        cpus = ",".join(map(str, engine.host["cpus"]))
        engine.settings = type(engine.settings)()  # so that leaving the engine removes them
    host, config = attributes["HostConfig"], attributes["Config"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"] and host["Privileged"] is False
    assert host["ReadonlyRootfs"] is True
    assert host["Tmpfs"] == {"/tmp": "rw,exec,nosuid,nodev,mode=1777"}
    assert config["User"] == "10001:10001"
    assert host["Init"] is True
    assert host["PidsLimit"] == 4096
    assert host["Memory"] == 2**30 and host["MemorySwap"] in (2**30, -1, 0)
    assert host["CpusetCpus"] == cpus
    assert host["ShmSize"] == 2**29
    mounts = {mount["Destination"]: mount for mount in attributes["Mounts"]}
    assert set(mounts) == {"/trial", "/data", "/inputs"}
    assert all(mount["Type"] == "volume" for mount in mounts.values())
    assert [mounts[path]["RW"] for path in ("/trial", "/data", "/inputs")] == [True, False, False]
    assert "docker.sock" not in str(attributes["Mounts"])


def test_the_restrictions_hold_inside_the_container(engine: DockerEngine, run: Run) -> None:
    script = """
def refused(path):
    try:
        open(path, "w")
    except OSError as error:
        return error.strerror
facts = pathlib.Path("/proc/self/status").read_text()
emit("seen", root=refused("/x"), data=refused("/data/x"), tmp=refused("/tmp/x"),
     nets=os.listdir("/sys/class/net"), caps=facts.split("CapEff:")[1].split()[0],
     no_new=facts.split("NoNewPrivs:")[1].split()[0])
emit("finished")
"""
    seen = run(engine, script).events[0]
    assert seen["root"] == seen["data"] == "Read-only file system" and seen["tmp"] is None
    assert "eth0" not in seen["nets"] and int(seen["caps"], 16) == 0 and seen["no_new"] == "1"


@pytest.fixture
def mounted(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """Makes a trial with a large dataset and with photographs; returns the latters' folder."""
    monkeypatch.setattr(docker_engine, "COPIED_BYTES", 0)

    def make(script: str) -> Path:
        path, photographs = folder(script) / "trial.json", tmp_path / "photographs"
        values = json.loads(path.read_text())
        (Path(values["paths"]["data"]) / DESCRIPTION).write_text("{}")
        photographs.mkdir()
        (photographs / "a.JPEG").touch()
        values["paths"]["images"] = str(photographs)
        path.write_text(json.dumps(values))
        return photographs

    return make


def test_a_large_dataset_and_photographs_are_mounted_from_their_folders(
    engine: DockerEngine, run: Run, mounted: Callable[[str], Path]
) -> None:
    script = """
def refused(path):
    try:
        open(path, "w")
    except OSError as error:
        return error.strerror
paths = trial["paths"]
emit("seen", data=os.listdir(paths["data"]), images=os.listdir(paths["images"]),
     refused=[refused("/data/x"), refused("/images/x")])
emit("finished")
"""
    photographs = mounted(script)
    done = run(engine, script)
    assert (done.status, done.error) == ("ok", None)
    seen = done.events[0]
    assert set(seen["data"]) == {"train_inputs.npy", DESCRIPTION} and seen["images"] == ["a.JPEG"]
    assert seen["refused"] == ["Read-only file system"] * 2
    shutil.rmtree(photographs)
    error = run(engine, script).error
    assert error is not None and f"path does not exist: {photographs}" in error.message


def test_another_dataset_at_the_same_path_of_the_engines_machine_is_refused(
    engine: DockerEngine,
    run: Run,
    mounted: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine mounts another folder, as if its machine had that at the same path."""
    other = tmp_path / "other"
    other.mkdir()
    (other / DESCRIPTION).write_text("another")
    create = engine.daemon.create

    def create_with_other(
        *arguments: Any, folders: dict[str, Path] | None = None, **options: Any
    ) -> Any:
        mounted_folders = {**folders, "/data": other} if folders else {}
        return create(*arguments, folders=mounted_folders, **options)

    monkeypatch.setattr(engine.daemon, "create", create_with_other)
    mounted("")
    refusal = "differs on the engine's machine"
    error = run(engine, "").error
    assert error is not None and refusal in error.message
    prepared = engine.prepare(TINY, lambda text: None)
    with (
        pytest.raises(EngineError, match=refusal),
        engine.shell(prepared, tmp_path / "data", ["true"], tty=False),
    ):
        pytest.fail("the shell has another dataset")
    assert engine.daemon.containers({SESSION: engine._session_id}) == []


def test_out_of_memory_is_recognised_by_the_engines_flag(tiny: Tiny, run: Run, home: Path) -> None:
    with tiny.engine(memory_bytes=2**26) as engine:
        done = run(engine, "started(); hoard = [b'x' * 2**20 for _ in range(1000)]")
    assert done.status == "oom" and done.error is not None
    assert done.error.message == "killed because it ran out of memory (limit 0.1 GiB)"
    assert [event["event"] for event in done.events] == ["started"]


def test_a_crash_is_named_by_its_exit_code(engine: DockerEngine, run: Run) -> None:
    done = run(engine, "started(); sys.exit(3)")
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "the worker exited with code 3 without reporting an error"


def test_a_crash_is_named_by_its_signal(engine: DockerEngine, run: Run) -> None:
    done = run(engine, "started(); os.kill(os.getpid(), signal.SIGSEGV)")
    assert done.error is not None and "SIGSEGV" in done.error.message


def test_an_exit_code_that_is_no_signal_is_named(engine: DockerEngine, run: Run) -> None:
    done = run(engine, "started(); sys.stdout.flush(); os._exit(255)")
    assert done.error is not None
    assert done.error.message == "the worker exited with code 255 without reporting an error"


def test_the_machine_is_described_by_a_container_as_soon_as_there_is_an_image(
    engine: DockerEngine, run: Run
) -> None:
    assert engine.host["cpu"] is None  # as the estimate before the images are ready sees it
    run(engine, 'emit("finished")')
    assert engine.host["cpu"] and engine.host["cpus"]


def test_a_worker_is_killed_at_its_deadline(engine: DockerEngine, run: Run) -> None:
    script = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"])
started()
time.sleep(600)
"""
    done = run(engine, script, deadline_s=3)
    assert done.status == "timeout" and done.error is not None
    assert done.error.message == "not finished after 3 s, so it was stopped"
    assert [event["event"] for event in done.events] == ["started"]
    assert leftovers(engine) == []


def test_a_worker_that_prints_without_a_pause_is_killed_at_its_deadline(
    engine: DockerEngine, run: Run
) -> None:
    script = """
started()
while True:
    sys.stderr.write("x" * 1000 + chr(10))
    time.sleep(0.0002)
"""
    done = run(engine, script, deadline_s=3)
    assert done.status == "timeout" and done.error is not None
    assert done.total_s is not None and done.total_s < 60
    assert leftovers(engine) == []


def test_the_output_is_attached_before_the_container_starts(
    engine: DockerEngine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the output of the first moment can be lost."""
    calls: list[str] = []
    attach, start = Container.attach, Container.start

    def record_attach(container: Container) -> Any:
        calls.append("attach")
        return attach(container)

    def record_start(container: Container) -> None:
        calls.append("start")
        start(container)

    monkeypatch.setattr(Container, "attach", record_attach)
    monkeypatch.setattr(Container, "start", record_start)
    assert run(engine, "emit('finished')").status == "ok"
    assert calls[-2:] == ["attach", "start"]


def test_a_container_that_is_stopped_before_its_start_is_killed_at_its_start(
    engine: DockerEngine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Container.start

    def stop_first(container: Container) -> None:
        if container.labels.get("dlsuite") == "trial":
            engine.stop()
        start(container)

    monkeypatch.setattr(Container, "start", stop_first)
    done = run(engine, "started()\ntime.sleep(60)")
    assert done.status == "failed" and done.error and "SIGKILL" in done.error.message
    assert leftovers(engine) == []


def test_a_worker_that_closes_its_output_is_awaited(engine: DockerEngine, run: Run) -> None:
    script = "emit('finished'); os.close(1); os.close(2); time.sleep(1.5); os._exit(0)"
    done = run(engine, script)
    assert done.status == "ok"


def test_the_events_of_a_removed_container_are_kept(engine: DockerEngine, run: Run) -> None:
    def remove(event: Event) -> None:
        for container in engine.daemon.containers(
            {SESSION: engine._session_id, "dlsuite": "trial"}
        ):
            container.remove()

    done = run(engine, "started(); time.sleep(600)", on_event=remove)
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "the container was removed while the worker ran"
    assert [event["event"] for event in done.events] == ["started"]


def test_an_interrupted_run_leaves_no_container_or_volume(engine: DockerEngine, run: Run) -> None:
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(engine, "started(); time.sleep(600)", on_event=interrupt)
    assert leftovers(engine) == []


def test_a_resumed_session_removes_a_finished_container_and_repeats_the_run(
    tiny: Tiny, run: Run, home: Path
) -> None:
    script = "started(); emit('ran', at=time.time()); emit('finished')"
    with tiny.engine("session00000", keep=True) as engine:
        first = run(engine, script, name="test-resume")
        assert len(engine.daemon.containers({TRIAL: "test-resume"})) == 1
    with tiny.engine("session00000") as engine:
        assert leftovers(engine) == []
        again = run(engine, script, name="test-resume")
    assert (first.status, again.status) == ("ok", "ok")
    assert again.events[1]["at"] > first.events[1]["at"]
    with closing(Daemon()) as daemon:
        assert daemon.containers({SESSION: "session00000"}) == []
        assert daemon.volumes({SESSION: "session00000"}) == {}


def test_a_resumed_session_removes_a_running_container_and_repeats_the_run(
    tiny: Tiny, run: Run, home: Path
) -> None:
    script = "started(); time.sleep(4); emit('finished')"

    def lose(event: Event) -> None:
        raise EngineLost("lost", hint="")

    with pytest.raises(EngineLost), tiny.engine("session00001") as engine:
        run(engine, script, name="test-resume-running", on_event=lose)
    with closing(Daemon()) as daemon:
        (container,) = daemon.containers({TRIAL: "test-resume-running"})
        state = container.state()
        assert state is not None and not state.ended
    with tiny.engine("session00001") as engine:
        assert leftovers(engine) == [] and container.state() is None
        again = run(engine, script, name="test-resume-running")
    assert again.status == "ok" and len(again.events) == 2


def test_no_trial_runs_beside_another_on_one_engine(engine: DockerEngine, home: Path) -> None:
    """The other may belong to a killed process of this machine, or to another machine."""
    image_id = str(engine.prepare(TINY, lambda text: None).image_id)
    labels = {"dlsuite": "trial", SESSION: "other"}
    sleeping = ["sh", "-c", "sleep 1.5"]
    other = engine.daemon.create(
        image_id, name=f"dlsuite-{os.getpid()}", labels=labels, entrypoint=sleeping, command=[]
    )
    messages: list[str] = []
    try:
        engine.wait_for_others("refuse", messages.append)
        other.start()
        with pytest.raises(BusyError, match="runs on this engine"):
            engine.wait_for_others("refuse", messages.append)
        (home / "work").mkdir(parents=True)
        (home / "work" / "other.lock").touch()
        with pytest.raises(BusyError, match="left by a dlsuite that ended, still runs"):
            engine.wait_for_others("wait", messages.append)
        (home / "work" / "other.lock").unlink()
        engine.wait_for_others("wait", messages.append)
        state = other.state()
        assert state is not None and state.ended
        assert messages == [f"{other.name} runs on this engine; waiting for it to end"]
    finally:
        other.remove()


def test_a_run_without_its_image_fails(engine: DockerEngine, run: Run) -> None:
    engine.prepare(TINY, lambda text: None)
    prepare = engine.prepare

    def prepare_and_remove(*arguments: object) -> object:
        prepared = prepare(*arguments)  # type: ignore[arg-type]
        engine.daemon.remove_image(str(prepared.image_id))
        return prepared

    engine.prepare = prepare_and_remove  # type: ignore[method-assign, assignment]
    done = run(engine, "emit('finished')")
    assert done.status == "failed" and done.error is not None
    assert "No such image" in done.error.message


def test_gpus_are_refused_at_once_by_an_engine_without_gpus(tiny: Tiny, home: Path) -> None:
    with tiny.engine() as engine:
        if engine.daemon.info.get("Runtimes", {}).get("nvidia"):
            pytest.skip("this engine has GPUs")
        engine.prepare(TINY, lambda text: None)
    with pytest.raises(EngineError, match="engine cannot provide the requested GPUs"):
        tiny.engine(gpus=Gpus(count=1)).__enter__()
    with closing(Daemon()) as daemon:
        assert daemon.containers({"dlsuite": "helper"}) == []


def test_an_engine_at_a_tcp_address_runs_a_worker(
    tiny: Tiny, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suite and engine share only the engine's API."""
    with forwarding() as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with tiny.engine() as engine:
            done = run(engine, "started(); emit('finished')")
    assert done.status == "ok" and len(done.events) == 2


@contextmanager
def forwarding() -> Iterator[int]:
    """A TCP port of this machine that forwards to the engine's socket."""
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not address.startswith("unix://"):
        pytest.skip("this engine has no local socket")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(address.removeprefix("unix://"))
                for pair in ((client, engine), (engine, client)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


def test_a_mounted_folder_that_the_containers_user_cannot_read(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "cat"
    folder.mkdir(parents=True)
    (folder / "1.jpg").write_bytes(b"")
    for each in (*folder.parents[: len(folder.parts) - 2], folder):
        if each.stat().st_uid == os.getuid() and each.is_relative_to(tmp_path.parent.parent):
            each.chmod(0o755)
    require_readable(folder.parent)
    (folder / "1.jpg").chmod(0o640)
    with pytest.raises(EngineError, match=r"1.jpg is mounted .* 10001 cannot read"):
        require_readable(folder.parent)
