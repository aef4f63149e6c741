"""Containers on a real engine: what they are made like, and every way in which they can end."""

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
from suite.engines.base import EngineLost
from suite.engines.docker import engine
from suite.engines.docker.client import Daemon
from suite.engines.docker.engine import DockerEngine
from suite.engines.docker.spec import SESSION, TRIAL
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


def left(engine: DockerEngine) -> list[str]:
    """The names of what the engine's session_id has on it."""
    labels = {SESSION: engine._owner}
    containers = [container.name for container in engine.daemon.containers(labels)]
    return containers + list(engine.daemon.volumes(labels))


def test_a_worker_gets_its_trial_and_its_results_come_home(
    engine: DockerEngine, run: Run, tmp_path: Path
) -> None:
    heard: list[Event] = []
    script = """
started()
print("a library talks", file=sys.stderr)
emit("seen", data=os.listdir("/data"), inputs=sorted(os.listdir("/inputs")), uid=os.getuid(),
     paths=trial["paths"], suite=sorted(os.listdir("/opt/dlsuite/suite")),
     track=os.environ["TRACK"])
(results / "step00_loss.npy").write_bytes(b"x" * 100000)
emit("finished")
"""
    done = run(engine, script, on_event=heard.append)
    assert (done.status, done.error) == ("ok", None)
    assert heard == done.events
    seen = done.events[1]
    assert set(seen["data"]) == {"train_inputs.npy", ".complete"}
    assert {"order.npy", "weights.npy"} < set(seen["inputs"])
    assert seen["track"] == "equal"
    assert seen["uid"] == 10001 and seen["paths"]["results"] == "/trial/results"
    assert seen["suite"] == ["__init__.py", "__pycache__", "worker"]
    assert (tmp_path / "trial/results/step00_loss.npy").stat().st_size == 100000
    assert (tmp_path / "trial/results/step00_loss.npy").stat().st_uid == os.getuid()
    assert "a library talks" in (tmp_path / "log").read_text()
    assert done.engine_s is not None and done.engine_s > 0
    assert not [name for name in left(engine) if "inputs" not in name]


def test_a_container_may_do_nothing_that_a_worker_does_not_need(
    tiny: Tiny, run: Run, home: Path
) -> None:
    with tiny.engine(keep=True, memory_bytes=2**30) as engine:
        run(engine, 'emit("finished")', name="test-flags")
        container = engine.daemon.containers({TRIAL: "test-flags"})[0]
        found = container.inspect()
        cpus = ",".join(map(str, engine.host["cpus"]))
        engine.settings = type(engine.settings)()  # now they go, when the engine is left
    host, config = found["HostConfig"], found["Config"]
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
    mounts = {mount["Destination"]: mount for mount in found["Mounts"]}
    assert set(mounts) == {"/trial", "/data", "/inputs"}
    assert all(mount["Type"] == "volume" for mount in mounts.values())
    assert [mounts[each]["RW"] for each in ("/trial", "/data", "/inputs")] == [True, False, False]
    assert "docker.sock" not in str(found["Mounts"])


def test_the_hardening_holds_inside(engine: DockerEngine, run: Run) -> None:
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
    """Makes a trial whose dataset is large and that has photographs; returns their folder."""
    monkeypatch.setattr(containers, "COPIED_BYTES", 0)

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


def test_a_large_dataset_and_photographs_are_mounted_from_where_they_lie(
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
    gone = run(engine, script).error
    assert gone is not None and f"path does not exist: {photographs}" in gone.message


def test_another_dataset_at_the_same_place_of_the_engines_machine_is_refused(
    engine: DockerEngine,
    run: Run,
    mounted: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine is told of another folder, as if on its machine that lay at the same place."""
    other = tmp_path / "other"
    other.mkdir()
    (other / DESCRIPTION).write_text("another")
    create = engine.daemon.create

    def create_there(*given: Any, folders: dict[str, Path] | None = None, **options: Any) -> Any:
        there = {**(folders or {}), **({"/data": other} if folders else {})}
        return create(*given, folders=there, **options)

    monkeypatch.setattr(engine.daemon, "create", create_there)
    mounted("")
    refusal = "is not the same on the engine's machine"
    error = run(engine, "").error
    assert error is not None and refusal in error.message
    prepared = engine.prepare(TINY, lambda text: None)
    with (
        pytest.raises(EngineError, match=refusal),
        engine.shell(prepared, tmp_path / "data", ["true"], tty=False),
    ):
        pytest.fail("a shell has another's data")
    assert engine.daemon.containers({SESSION: engine._owner}) == []


def test_out_of_memory_is_told_by_the_engines_flag(tiny: Tiny, run: Run, home: Path) -> None:
    with tiny.engine(memory_bytes=2**26) as engine:
        done = run(engine, "started(); hoard = [b'x' * 2**20 for _ in range(1000)]")
    assert done.status == "oom" and done.error is not None
    assert done.error.message == "killed for running out of memory, of which it had 0.1 GiB"
    assert [event["event"] for event in done.events] == ["started"]


def test_a_crash_is_named_by_its_exit_code(engine: DockerEngine, run: Run) -> None:
    done = run(engine, "started(); sys.exit(3)")
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "the worker ended with exit code 3 and no word why"


def test_a_crash_is_named_by_its_signal(engine: DockerEngine, run: Run) -> None:
    done = run(engine, "started(); os.kill(os.getpid(), signal.SIGSEGV)")
    assert done.error is not None and "SIGSEGV" in done.error.message


def test_past_the_deadline_it_is_killed(engine: DockerEngine, run: Run) -> None:
    script = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"])
started()
time.sleep(600)
"""
    done = run(engine, script, deadline_s=3)
    assert done.status == "timeout" and done.error is not None
    assert done.error.message == "not done after 3 s, so it was stopped"
    assert [event["event"] for event in done.events] == ["started"]
    assert not [name for name in left(engine) if "inputs" not in name]


def test_a_worker_that_closes_its_output_is_still_waited_for(
    engine: DockerEngine, run: Run
) -> None:
    script = "emit('finished'); os.close(1); os.close(2); time.sleep(1.5); os._exit(0)"
    done = run(engine, script)
    assert done.status == "ok"


def test_a_container_removed_by_hand_leaves_its_events(engine: DockerEngine, run: Run) -> None:
    def remove(event: Event) -> None:
        for container in engine.daemon.containers({SESSION: engine._owner, "dlsuite": "trial"}):
            container.remove()

    done = run(engine, "started(); time.sleep(600)", on_event=remove)
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "the container was removed while the worker was at work"
    assert [event["event"] for event in done.events] == ["started"]


def test_an_interrupted_run_leaves_nothing(engine: DockerEngine, run: Run) -> None:
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(engine, "started(); time.sleep(600)", on_event=interrupt)
    assert not [name for name in left(engine) if "inputs" not in name]


def test_a_finished_container_of_a_killed_orchestrator_is_adopted(
    tiny: Tiny, run: Run, home: Path
) -> None:
    with tiny.engine("dead00000000", keep=True) as engine:
        first = run(engine, "started(); emit('finished')", name="test-adopt")
    with tiny.engine("dead00000000") as engine:
        heard: list[Event] = []
        again = run(engine, "sys.exit(9)", name="test-adopt", on_event=heard.append)
        assert (again.status, again.events) == ("ok", first.events)
        assert heard == first.events
    with closing(Daemon()) as daemon:
        assert daemon.containers({SESSION: "dead00000000"}) == []
        assert daemon.volumes({SESSION: "dead00000000"}) == {}


def test_a_running_container_of_a_killed_orchestrator_is_adopted(
    tiny: Tiny, run: Run, home: Path
) -> None:
    script = "started(); time.sleep(4); emit('finished')"
    with tiny.engine("dead00000001") as engine:

        def lose(event: Event) -> None:
            raise EngineLost("gone", hint="")

        with pytest.raises(EngineLost):
            run(engine, script, name="test-adopt-running", on_event=lose)
        again = run(engine, script, name="test-adopt-running")
    assert again.status == "ok" and len(again.events) == 2


def test_no_trial_runs_beside_another_on_one_engine(engine: DockerEngine, home: Path) -> None:
    """Whoever started it: one whose orchestrator was killed, or one of another machine."""
    image_id = str(engine.prepare(TINY, lambda text: None).image_id)
    labels = {"dlsuite": "trial", SESSION: "other"}
    sleeping = ["sh", "-c", "sleep 1.5"]
    other = engine.daemon.create(
        image_id, name=f"dlsuite-{os.getpid()}", labels=labels, entrypoint=sleeping, command=[]
    )
    said: list[str] = []
    try:
        engine.wait_for_others("refuse", said.append)
        other.start()
        with pytest.raises(BusyError, match="runs on this engine"):
            engine.wait_for_others("refuse", said.append)
        (home / "work").mkdir(parents=True)
        (home / "work" / "other.lock").touch()
        with pytest.raises(BusyError, match="of a dlsuite that ended, still runs"):
            engine.wait_for_others("wait", said.append)
        (home / "work" / "other.lock").unlink()
        engine.wait_for_others("wait", said.append)
        state = other.state()
        assert state is not None and state.over
        assert said == [f"{other.name} runs on this engine; waiting for it to end"]
    finally:
        other.remove()


def test_an_image_that_vanished_fails_its_run(engine: DockerEngine, run: Run) -> None:
    engine.prepare(TINY, lambda text: None)
    prepare = engine.prepare

    def vanishing(*arguments: object) -> object:
        prepared = prepare(*arguments)  # type: ignore[arg-type]
        engine.daemon.remove_image(str(prepared.image_id))
        return prepared

    engine.prepare = vanishing  # type: ignore[method-assign, assignment]
    done = run(engine, "emit('finished')")
    assert done.status == "failed" and done.error is not None
    assert "No such image" in done.error.message


def test_gpus_that_the_engine_has_not_are_refused_at_once(tiny: Tiny, home: Path) -> None:
    with tiny.engine() as engine:
        if engine.daemon.info.get("Runtimes", {}).get("nvidia"):
            pytest.skip("this engine has GPUs")
        engine.prepare(TINY, lambda text: None)
    with pytest.raises(EngineError, match="GPUs were asked for and the engine has none to give"):
        tiny.engine(gpus=Gpus(count=1)).__enter__()
    with closing(Daemon()) as daemon:
        assert daemon.containers({"dlsuite": "helper"}) == []


def test_an_engine_at_a_tcp_address_serves_as_well(
    tiny: Tiny, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is shared with the engine but its API."""
    with forwarding() as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with tiny.engine() as engine:
            done = run(engine, "started(); emit('finished')")
    assert done.status == "ok" and len(done.events) == 2


@contextmanager
def forwarding() -> Iterator[int]:
    """A TCP port of this machine that leads to the engine's socket."""
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
