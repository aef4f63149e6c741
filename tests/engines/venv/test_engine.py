"""The engine with faulty workers: each attempt gets its status and leaves no process."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.engines.attempt import Attempt, attempt
from suite.engines.base import WorkerRun
from suite.engines.venv import output
from suite.manifests import catalog
from suite.protocol.events import Event
from tests.conftest import ScriptEngine

Script = Callable[[str], ScriptEngine]


@pytest.fixture
def run(script_engine: Script, tmp_path: Path) -> Callable[..., Attempt]:
    """Runs a script as the worker."""

    def run_script(
        text: str,
        deadline_s: float = 30,
        on_event: Callable[[Event], None] = lambda event: None,
        environment: dict[str, str] | None = None,
    ) -> Attempt:
        engine = script_engine(text)
        folder = tmp_path / "trial"
        (folder / "results").mkdir(parents=True)
        trial = {"paths": {"results": str(folder / "results")}, "environment": environment or {}}
        (folder / "trial.json").write_text(json.dumps(trial))
        prepared = engine.prepare(catalog.framework("pytorch"), print)
        log = tmp_path / "log"
        worker = WorkerRun(
            prepared=prepared, folder=folder, name="trial", log=log, deadline_s=deadline_s
        )
        return attempt(engine.run, worker, on_event)

    return run_script


def has_ended(pid: int) -> bool:
    """Whether a process ends within ten seconds; a zombie has ended."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_a_worker_that_finishes_is_ok(run: Callable[..., Attempt], tmp_path: Path) -> None:
    passed_on: list[Event] = []
    done = run(
        'started(); print("a message", file=sys.stderr); emit("odd", x=1); emit("finished")',
        on_event=passed_on.append,
    )
    assert (done.status, done.error) == ("ok", None)
    assert [event["event"] for event in done.events] == ["started", "odd", "finished"]
    assert passed_on == done.events
    assert "a message" in (tmp_path / "log").read_text()


def test_a_crash_is_described_by_its_exit_code(run: Callable[..., Attempt]) -> None:
    done = run("started(); sys.exit(3)")
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "the worker exited with code 3 without reporting an error"


def test_a_crash_is_described_by_its_signal(run: Callable[..., Attempt]) -> None:
    done = run("started(); os.kill(os.getpid(), signal.SIGSEGV)")
    assert done.error is not None and "SIGSEGV" in done.error.message


def test_a_kill_from_outside_names_memory_as_the_likely_cause(run: Callable[..., Attempt]) -> None:
    done = run("os.kill(os.getpid(), signal.SIGKILL)")
    assert done.error is not None and "memory runs out" in done.error.message


def test_the_failure_that_a_worker_reports_is_kept(run: Callable[..., Attempt]) -> None:
    done = run('emit("failed", error_class="ValueError", message="no such layer"); sys.exit(1)')
    assert done.status == "failed" and done.error is not None
    assert (done.error.error_class, done.error.message) == ("ValueError", "no such layer")


@pytest.mark.parametrize(
    ("error_class", "message", "status"),
    [
        ("MemoryError", "", "oom"),
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB.", "oom"),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate", "oom"),
        ("MXNetError", "cudaMalloc retry failed: out of memory", "oom"),
        ("ResourceExhaustedError", "OOM when allocating tensor", "oom"),
        ("JaxRuntimeError", "RESOURCE_EXHAUSTED: Shared memory size limit exceeded", "failed"),
    ],
)
def test_an_error_of_memory_is_out_of_memory(
    run: Callable[..., Attempt], error_class: str, message: str, status: str
) -> None:
    done = run(f'emit("failed", error_class={error_class!r}, message={message!r}); sys.exit(1)')
    assert done.status == status


def test_a_worker_is_killed_with_its_children_at_the_deadline(run: Callable[..., Attempt]) -> None:
    pids: list[int] = []
    started = time.monotonic()
    done = run(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "600"])
        emit("pids", pids=[os.getpid(), child.pid])
        time.sleep(600)
        """,
        deadline_s=1.5,
        on_event=lambda event: pids.extend(event["pids"]),
    )
    assert done.status == "timeout" and done.error is not None
    assert done.error.message == "not finished after 1.5 s, so it was stopped"
    assert time.monotonic() - started < 60
    assert len(pids) == 2 and all(has_ended(pid) for pid in pids)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", 'emit("finished")'])
def test_a_process_that_keeps_the_output_open_does_not_delay_the_end(
    run: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """It is in a session of its own, so that it is not killed with the worker."""
    monkeypatch.setattr(output, "CLOSE_S", 0.2)
    pids: list[int] = []
    started_s = time.monotonic()
    done = run(
        f"""
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        emit("pids", pids=[child.pid])
        started()
        {end}
        """,
        deadline_s=300,
        on_event=lambda event: pids.extend(event.get("pids", [])),
    )
    os.kill(pids[0], signal.SIGKILL)
    assert time.monotonic() - started_s < 60
    if "finished" in end:
        assert done.status == "ok" and done.error is None
    else:
        assert done.error is not None and "SIGKILL" in done.error.message


def test_a_worker_that_closes_its_output_and_lives_has_the_deadline(
    run: Callable[..., Attempt],
) -> None:
    done = run("started(); os.close(1); time.sleep(600)", deadline_s=1.5)
    assert done.status == "timeout"


def test_megabytes_without_an_event_are_one_violation(run: Callable[..., Attempt]) -> None:
    done = run(
        """
        sys.stdout.buffer.write(b"x" * 3_000_000 + b"\\n" + b"\\xff\\n" * 10_000 + b"half")
        sys.stderr.write("noise " * 1_000_000)
        sys.stdout.flush()
        emit("finished")
        """
    )
    assert done.error is not None and done.error.error_class == "ProtocolError"
    assert len(done.error.message) < 200 and "not JSON: 'xxx" in done.error.message


def test_other_text_on_standard_output_violates_the_protocol(run: Callable[..., Attempt]) -> None:
    done = run('started(); print("hello"); emit("finished")')
    assert done.status == "failed" and done.error is not None
    assert done.error.error_class == "ProtocolError"
    assert "not JSON: 'hello'" in done.error.message


def test_an_event_that_violates_its_schema_violates_the_protocol(
    run: Callable[..., Attempt],
) -> None:
    done = run('emit("block", step=1, steps=-1); emit("finished")')
    assert done.error is not None and done.error.error_class == "ProtocolError"


def test_a_worker_that_exits_without_a_result_has_failed(run: Callable[..., Attempt]) -> None:
    done = run("started()")
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "the worker ended without a result"


def test_a_worker_sees_no_module_or_variable_of_the_host(
    run: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv("SECRET", "x")
    done = run(
        """
        import suite
        modules = {name for name in os.listdir(suite.__path__[0]) if name != "__pycache__"}
        emit("seen", modules=sorted(modules), secret="SECRET" in os.environ)
        emit("finished")
        """
    )
    seen = done.events[0]
    assert seen["modules"] == ["__init__.py", "worker"] and seen["secret"] is False


def test_the_environment_of_a_trial_is_set_before_the_worker_starts(
    run: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    environment = {"MALLOC_ARENA_MAX": "1", "PYTHONPATH": "/nowhere"}
    text = """
        initial = pathlib.Path("/proc/self/environ").read_text().split(chr(0))
        emit("seen", initial=initial, path=sys.path)
        emit("finished")
        """
    seen = run(text, environment=environment).events[0]
    assert "MALLOC_ARENA_MAX=1" in seen["initial"] and "/nowhere" not in seen["path"]
    assert not [entry for entry in seen["initial"] if entry.startswith("OMP_")]
