"""A plan runs to its end even where workers fail: each planned run gets a record."""

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.datasets import library
from suite.engines.attempt import Attempt
from suite.engines.base import Prepared
from suite.engines.errors import FrameworkUnavailable
from suite.errors import EngineError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest
from suite.manifests.frameworks import FrameworkManifest, Unsupported
from suite.manifests.workloads import Repeats
from suite.messages import Notify
from suite.parity import certificates
from suite.parity.tensors import ReferencesDisagree
from suite.protocol.events import Event
from suite.protocol.expansion import expand
from suite.protocol.plan import Plan, Run, Trial
from suite.results import store
from suite.results.blocks import Blocks
from suite.results.record import Record
from suite.runner import stopping
from suite.runner.execution import Execution
from suite.runner.progress import STAGES, Stage
from suite.runner.runner import Runner
from tests.conftest import ScriptEngine, Silent
from tests.runner.test_series import plan_of_series

WORKS = """
started()
emit("built", build_s=0.1, parameters=431080, device={"threads": 2})
emit("compiled", first_step_s=0.5, synchronize_s=0.001, loss=2.3)
emit("warmup", step=2, steps=1, duration_s=0.5, samples_per_s=128.0, left_s=1)
emit("warm", blocks=1, steady=False)
emit("block", step=12, steps=10, duration_s=1.0, samples_per_s=640.0, left_s=1)
emit("block", step=22, steps=10, duration_s=3.0, samples_per_s=213.3, left_s=0)
emit("epoch", epoch=1, duration_s=4.5, train_loss=0.3, train_accuracy=0.9, test_loss=0.3,
     test_accuracy=0.91, test_samples=40, test_loss_error=0.01)
emit("trained", steps=22, optimizer_steps=22)
emit("memory", host_rss_peak_bytes=1000)
emit("finished")
"""


@pytest.fixture
def run(
    digits: tuple[DatasetManifest, Path],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Plan, ScriptEngine], list[Record]]:
    dataset, raw = digits
    library.prepare(dataset, notify=lambda text: None, source=raw)
    monkeypatch.setattr(catalog, "dataset", lambda name: dataset)
    (tmp_path / "work").mkdir()

    def run(plan: Plan, engine: ScriptEngine) -> list[Record]:
        with store.run_folder(tmp_path / "results", plan.suite) as folder:
            runner = Runner(engine, Silent(), tmp_path / "work")
            returned = runner.run(plan, runner.prepare(plan), folder)
        by_id = {(each.trial_id, each.repeat): each for each in store.read(folder.path)}
        assert by_id == {(each.trial_id, each.repeat): each for each in returned}
        done = stopping.Finished(returned)
        assert not any(stopping.needed(plan, group, done) for group in plan.groups)
        return returned

    return run


def test_the_record_has_the_figures_of_the_worker(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
    tmp_path: Path,
) -> None:
    record = run(quick("pytorch"), script_engine(WORKS))[0]
    assert (record.status, record.parameters, record.framework_version) == ("ok", 431_080, "1")
    times = record.times.model_dump()
    assert times.pop("total_s") > 0
    assert times == {
        "import_s": 0.1,
        "build_s": 0.1,
        "first_step_s": 0.5,
        "synchronize_s": 0.001,
        "warmup_s": 0.5,
        "measured_s": 4.0,
        "exchange_s": None,
        "engine_s": None,
    }
    assert (record.steady, record.interleaved) == (False, 1)
    assert record.blocks.warmup == (True, False, False)
    assert record.samples_per_s == pytest.approx(20 * 64 / 4, rel=1e-3)
    assert record.epochs[0].test_accuracy == 0.91
    assert record.memory.host_rss_peak_bytes == 1000 and record.telemetry is None
    assert record.environment["worker"] == {"versions": {}, "device": {"threads": 2}}
    folder = tmp_path / "results" / "latest"
    assert record.log is not None and (folder / record.log).is_file()
    assert (folder / record.log.replace(".log", ".events.jsonl")).is_file()


def test_a_framework_that_is_not_proven_runs_and_its_record_has_the_reason(
    home: Path,
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
) -> None:
    record = run(quick("pytorch"), script_engine(WORKS))[0]
    assert not record.parity.proven
    assert record.parity.reason is not None and "step00_logits.npy" in record.parity.reason
    assert not (home / "certificates").exists()


def test_without_a_reference_nothing_is_timed(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    reason = "the two float64 references differ by 1.1e+00"

    def disagree(engine: object, trials: list[Trial], *_: object, **__: object) -> object:
        return {trial.trial_id: ReferencesDisagree(reason) for trial in trials}

    monkeypatch.setattr(certificates, "certify", disagree)
    started = tmp_path / "started"
    worker = f"if trial['mode'] == 'train': open({str(started)!r}, 'w')\n{WORKS}"
    for record in run(quick("pytorch", "mxnet", repeats=2), script_engine(worker)):
        assert record.status == "failed" and not record.parity.proven
        assert record.error is not None and record.error.message == reason
    assert not started.exists()


def test_a_crash_of_one_framework_does_not_affect_the_others(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
) -> None:
    text = "if trial['framework'] == 'jax': sys.exit(9)\n" + WORKS
    records = run(quick("jax", "mxnet", repeats=2), script_engine(text))
    assert sorted((each.framework, each.status) for each in records) == [
        ("jax", "failed"),  # it could not start, so its second run is not tried
        ("mxnet", "ok"),
        ("mxnet", "ok"),
    ]


def test_unavailable_frameworks_are_skipped_or_failed_with_the_reason(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = script_engine(WORKS)
    prepare = engine.prepare

    def some_unavailable(manifest: FrameworkManifest, notify: Notify) -> Prepared:
        if manifest.name == "mxnet":
            raise FrameworkUnavailable("no Python 3.11", hint="install one")
        if manifest.name == "tensorflow":
            raise EngineError("no network", hint="check it")
        return prepare(manifest, notify)

    monkeypatch.setattr(engine, "prepare", some_unavailable)
    records = {each.framework: each for each in run(quick(), engine)}
    assert {name: each.status for name, each in records.items()} == {
        "pytorch": "ok",
        "jax": "ok",
        "mxnet": "skipped",
        "tensorflow": "failed",
    }
    error = records["mxnet"].error
    assert error is not None and (error.message, error.hint) == ("no Python 3.11", "install one")


def test_an_unsupported_trial_is_skipped_with_the_declared_reason(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unsupported = Unsupported(layer="max_pool2d", reason="it has no pools")
    real = catalog.framework

    def framework(name: str) -> FrameworkManifest:
        changes = {"unsupported": (unsupported,) if name == "mxnet" else ()}
        return real(name).model_copy(update=changes)

    monkeypatch.setattr(catalog, "framework", framework)
    plan = quick("pytorch", "mxnet")
    records = {each.framework: each for each in run(plan, script_engine(WORKS))}
    assert records["pytorch"].status == "ok"
    skipped = records["mxnet"]
    assert skipped.status == "skipped" and skipped.blocks == Blocks()
    assert skipped.error is not None and skipped.error.message == "it has no pools"


LARGE = """
if trial["mode"] == "train" and trial["framework"] == "jax" and trial["batch_size"] >= 256:
    emit("failed", error_class="OutOfMemoryError", message="CUDA out of memory")
    sys.exit(1)
"""


def test_larger_batches_than_one_that_does_not_fit_do_not_start(
    run: Callable[..., list[Record]], script_engine: Callable[[str], ScriptEngine], tmp_path: Path
) -> None:
    plan = plan_of_series("jax", "mxnet", largest=1024)
    records = run(plan, script_engine(LARGE + WORKS))
    found = {(each.framework, each.workload.batch_size): each for each in records}
    statuses = {key: each.status for key, each in found.items()}
    assert [statuses["mxnet", size] for size in (64, 128, 256, 512, 1024)] == ["ok"] * 5
    assert [statuses["jax", size] for size in (64, 128, 256)] == ["ok", "ok", "oom"]
    for size in (512, 1024):
        skipped = found["jax", size]
        assert skipped.status == "skipped" and skipped.error is not None
        assert skipped.error.message == "batch 256 did not fit into memory"
    logs = [path.name for path in (tmp_path / "results" / "latest" / "logs").iterdir()]
    assert any("jax" in name and "b256-" in name for name in logs)
    assert not any("jax" in name and "b512-" in name for name in logs)


MEETS = """
folder = pathlib.Path(trial["paths"]["interleaving"]).parent
(folder / trial["framework"]).touch()
other = folder / {"jax": "mxnet", "mxnet": "jax"}[trial["framework"]]
while not other.exists():
    time.sleep(0.01)
"""


def test_interleaved_frameworks_of_a_workload_run_at_once(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
) -> None:
    """Each worker waits until the other one runs too, so the test ends only with both."""
    text = f"if trial['mode'] == 'train':\n{textwrap.indent(MEETS, '    ')}\n{WORKS}"
    plan = replace(quick("jax", "mxnet", repeats=2), interleave=True)
    records = run(plan, script_engine(text))
    assert [(each.status, each.interleaved, each.repeat) for each in records] == [
        *[("ok", 2, 0)] * 2,
        *[("ok", 2, 1)] * 2,
    ]


def test_an_interruption_ends_all_interleaved_workers(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """One worker sleeps; an event of the other one interrupts, as Ctrl-C would."""
    text = """
if trial["mode"] == "train" and trial["framework"] == "jax":
    time.sleep(600)
started()
"""

    def interrupt(self: Silent, run: Run, event: Event) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Silent, "event", interrupt)
    plan = replace(quick("jax", "mxnet"), interleave=True)
    with pytest.raises(KeyboardInterrupt):
        run(plan, script_engine(text))
    assert not list((tmp_path / "results").glob("*/*.json"))


def test_an_interruption_between_the_proofs_of_a_round_leaves_no_part_of_it(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A resume would execute the rest alone, and compare runs that were not simultaneous."""
    proven: list[Run] = []

    def closing(self: Execution, run: Run, attempt: Attempt) -> None:
        if proven:
            raise KeyboardInterrupt
        proven.append(run)

    monkeypatch.setattr(Execution, "_closing", closing)
    plan = replace(quick("jax", "mxnet"), interleave=True)
    with pytest.raises(KeyboardInterrupt):
        run(plan, script_engine(WORKS))
    assert not list((tmp_path / "results").glob("*/*-r0.json"))


def test_the_stages_are_reported_in_their_order(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[Stage] = []
    monkeypatch.setattr(Silent, "stage", lambda self, stage: reported.append(stage))
    run(quick("pytorch"), script_engine(WORKS))
    assert tuple(reported) == STAGES


def test_each_seed_has_its_own_inputs_which_all_frameworks_share(
    run: Callable[..., list[Record]],
    script_engine: Callable[[str], ScriptEngine],
    tmp_path: Path,
) -> None:
    """Each worker copies its weights and its order to a file that is named by its framework."""
    copies = tmp_path / "copies"
    copies.mkdir()
    text = f"""
if trial["mode"] == "train":
    for name in ("weights", "order"):
        content = pathlib.Path(trial["paths"][name]).read_bytes()
        copy = pathlib.Path({str(copies)!r}) / f"{{trial['framework']}}-{{trial['seed']}}-{{name}}"
        copy.write_bytes(content)
"""
    suite = catalog.suite("quick").model_copy(update={"seeds": 2, "tracks": ("equal",)})
    once = suite.model_copy(update={"repeats": Repeats(at_least=1, at_most=1)})
    plan = expand(once, catalog.frameworks(), catalog.tracks(), only=("jax", "mxnet"))
    records = run(plan, script_engine(text + WORKS))
    assert sorted((each.framework, each.seed, each.status) for each in records) == [
        *(("jax", 1, "ok"), ("jax", 2, "ok"), ("mxnet", 1, "ok"), ("mxnet", 2, "ok")),
    ]
    for name in ("weights", "order"):
        one, two = ((copies / f"jax-{seed}-{name}").read_bytes() for seed in (1, 2))
        assert one != two
        assert one == (copies / f"mxnet-1-{name}").read_bytes()
        assert two == (copies / f"mxnet-2-{name}").read_bytes()
