"""The engine with misbehaving workers: each ends as a typed verdict and leaves no process."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.engines.attempt import Attempt, attempt
from suite.protocol.events import Event
from suite.manifests import catalog
from tests.conftest import ScriptEngine

Script = Callable[[str], ScriptEngine]


@pytest.fixture
def run(script_engine: Script, tmp_path: Path) -> Callable[..., Attempt]:
    def attempted(
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
        return attempt(
            engine,
            engine.prepare(catalog.framework("pytorch"), print),
            folder,
            name="trial",
            log=tmp_path / "log",
            deadline_s=deadline_s,
            on_event=on_event,
        )

    return attempted


def gone(pid: int) -> bool:
    """Dead, or killed and dying: nobody can wait for a worker's child, which takes a moment."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_a_worker_that_does_its_work_is_ok(run: Callable[..., Attempt], tmp_path: Path) -> None:
    heard: list[Event] = []
    done = run(
        'started(); print("a library talks", file=sys.stderr); emit("odd", x=1); emit("finished")',
        on_event=heard.append,
    )
    assert (done.status, done.error) == ("ok", None)
    assert [event["event"] for event in done.events] == ["started", "odd", "finished"]
    assert heard == done.events
    assert "a library talks" in (tmp_path / "log").read_text()


def test_a_crash_is_named_by_its_exit_code_or_signal(run: Callable[..., Attempt]) -> None:
    done = run("started(); sys.exit(3)")
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "the worker ended with exit code 3 and no word why"


def test_a_signal_is_named(run: Callable[..., Attempt]) -> None:
    done = run("started(); os.kill(os.getpid(), signal.SIGSEGV)")
    assert done.error is not None and "SIGSEGV" in done.error.message


def test_a_kill_from_outside_hints_at_memory(run: Callable[..., Attempt]) -> None:
    done = run("os.kill(os.getpid(), signal.SIGKILL)")
    assert done.error is not None and "memory runs out" in done.error.message


def test_what_the_worker_says_of_its_failure_is_kept(run: Callable[..., Attempt]) -> None:
    done = run('emit("failed", error_class="ValueError", message="no such layer"); sys.exit(1)')
    assert done.status == "failed" and done.error is not None
    assert (done.error.error_class, done.error.message) == ("ValueError", "no such layer")


def test_a_memory_error_is_out_of_memory(run: Callable[..., Attempt]) -> None:
    done = run('emit("failed", error_class="MemoryError", message=""); sys.exit(1)')
    assert done.status == "oom"


def test_past_the_deadline_it_is_stopped_with_all_its_children(
    run: Callable[..., Attempt],
) -> None:
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
    assert done.error.message == "not done after 1.5 s, so it was stopped"
    assert time.monotonic() - started < 60
    assert len(pids) == 2 and all(gone(pid) for pid in pids)


def test_garbage_on_standard_output_breaks_the_protocol(run: Callable[..., Attempt]) -> None:
    done = run('started(); print("hello"); emit("finished")')
    assert done.status == "failed" and done.error is not None
    assert done.error.error_class == "ProtocolError"
    assert "not JSON: 'hello'" in done.error.message


def test_an_event_that_breaks_its_schema_is_garbage(run: Callable[..., Attempt]) -> None:
    done = run('emit("block", step=1, steps=-1); emit("finished")')
    assert done.error is not None and done.error.error_class == "ProtocolError"


def test_exit_0_without_a_result_is_no_result(run: Callable[..., Attempt]) -> None:
    done = run("started()")
    assert done.status == "failed" and done.error is not None
    assert done.error.message == "the worker ended without a result"


def test_the_worker_sees_no_module_or_setting_of_the_host(
    run: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setenv("SECRET", "x")
    heard: list[Event] = []
    run(
        """
        import suite
        modules = {name for name in os.listdir(suite.__path__[0]) if name != "__pycache__"}
        emit("seen", modules=sorted(modules), secret="SECRET" in os.environ)
        emit("finished")
        """,
        on_event=heard.append,
    )
    assert heard[0]["modules"] == ["__init__.py", "worker"] and heard[0]["secret"] is False


def test_the_trial_s_environment_is_there_before_the_worker_starts(
    run: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    given = {"MALLOC_ARENA_MAX": "1", "PYTHONPATH": "/nowhere"}
    text = """
        begun = pathlib.Path("/proc/self/environ").read_text().split(chr(0))
        emit("seen", begun=begun, path=sys.path)
        emit("finished")
        """
    seen = run(text, environment=given).events[0]
    assert "MALLOC_ARENA_MAX=1" in seen["begun"] and "/nowhere" not in seen["path"]
    assert not [each for each in seen["begun"] if each.startswith("OMP_")]
