"""`dlsuite verify --again`: how the rows of the new run are judged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from suite.cli import again
from suite.errors import (
    Inconclusive,
    NotVerified,
    ParityFailed,
    ResultsError,
    RunsFailed,
    UsageError,
)
from suite.protocol.plan import Plan
from suite.results import store
from suite.results.record import Error, Parity
from suite.runner import planfile
from tests.conftest import started
from tests.results.test_record import CLOSED, record

Runs = Callable[[Plan, Path], Path]  # writes a record for each run of a plan


def writer(rates: dict[str, float], *, unproven: str = "", failed: str = "") -> Runs:
    """Writes records with these rates of frameworks, which vary by 1 % from run to run."""

    def write(plan: Plan, results: Path) -> Path:
        with store.run_folder(results, plan.suite) as folder:
            for run in plan.runs:
                name = run.trial.framework
                crashed = Error(error_class="Crash", message="it crashed", hint=None)
                made = record(
                    framework=name,
                    variant=run.trial.variant,
                    trial_id=run.trial.trial_id,
                    workload=run.trial.workload,
                    repeat=run.repeat,
                    samples_per_s=None if name == failed else rates[name] * (1 + run.repeat / 100),
                    status="failed" if name == failed else "ok",
                    error=crashed if name == failed else None,
                    parity=Parity(proven=name not in (unproven, failed), steps=10, closing=CLOSED),
                )
                folder.append(made)
        return folder.path

    return write


@pytest.fixture
def then(quick: Callable[..., Plan], tmp_path: Path) -> Path:
    """A run of two frameworks, of which the first is twice as fast."""
    plan = quick("jax", "mxnet", repeats=4)
    folder = writer({"jax": 200.0, "mxnet": 100.0})(plan, tmp_path / "then")
    planfile.write(folder, started(plan))
    return folder


def measure(then: Path, runs: Runs, error: Exception | None = None, number: int = 2) -> None:
    """Judge a new run that is written by `runs`, and ends with this error."""

    def start(plan: Plan, *_: object, results: Path, **__: object) -> Path:
        folder = runs(plan, results)
        if error:
            raise error
        return folder

    again.measure(then, number, then.parent.parent / "now", start)


def test_equal_ratios_agree_also_at_other_rates(
    then: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(then, writer({"jax": 20.0, "mxnet": 10.0}))
    shown = capsys.readouterr().out
    assert shown.count("the proof agrees") == 2 and shown.count("the ratio agrees") == 1


def test_another_ratio_differs(then: Path) -> None:
    with pytest.raises(NotVerified, match=r"measured again, it differs: .*: ratio"):
        measure(then, writer({"jax": 100.0, "mxnet": 100.0}))


def test_a_row_that_is_not_proven_here_differs(then: Path) -> None:
    runs = writer({"jax": 200.0, "mxnet": 100.0}, unproven="mxnet")
    with pytest.raises(NotVerified, match=r"it differs: mxnet:hybrid: proof$"):
        measure(then, runs, ParityFailed("1 run is not proven", hint=""))


def test_a_row_that_fails_here_differs(then: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = writer({"jax": 200.0, "mxnet": 100.0}, failed="mxnet")
    with pytest.raises(NotVerified, match="mxnet:hybrid: proof"):
        measure(then, runs, RunsFailed("4 runs failed", hint=""))
    assert "mxnet:hybrid: the proof differs" in capsys.readouterr().out


def test_a_single_row_has_no_ratio(then: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(then, writer({"jax": 2.0, "mxnet": 1.0}), number=1)
    assert "ratio" not in capsys.readouterr().out


def test_a_noisy_machine_cannot_tell(then: Path) -> None:
    def noisy(plan: Plan, results: Path) -> Path:
        folder = writer({"jax": 200.0, "mxnet": 100.0})(plan, results)
        for path in folder.glob("*-r[13].json"):
            made = store.read_record(path)
            assert made.samples_per_s
            changed = made.model_copy(update={"samples_per_s": made.samples_per_s * 1.7})
            path.write_text(changed.model_dump_json())
        return folder

    with pytest.raises(Inconclusive, match="too few or too noisy runs"):
        measure(then, noisy)


def test_no_row_or_none_that_was_measured_is_refused(
    then: Path, quick: Callable[..., Plan]
) -> None:
    with pytest.raises(UsageError, match="--again is 0; the minimum is 1"):
        measure(then, writer({}), number=0)
    for path in then.glob("*-r*.json"):
        made = store.read_record(path).model_copy(update={"samples_per_s": None})
        path.write_text(made.model_dump_json())
    with pytest.raises(ResultsError, match="no row of the run was measured"):
        measure(then, writer({}))
