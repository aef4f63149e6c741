"""The lines below a table: each error once, with the trials that have it."""

from dataclasses import replace

from suite.report.notes import errors_of, notes_of, warnings_of
from suite.report.summary import summarise
from suite.report.warning import ReportWarning
from suite.results.record import Error
from tests.report.made_inference import inferred, untried
from tests.results.test_record import record


def test_batch_sizes_with_the_same_error_share_a_line() -> None:
    message = "batch 8 did not fit into memory"
    found = summarise(
        [
            untried("oom", 8, "the worker was killed", trial_id="a"),
            untried("skipped", 16, message, trial_id="b"),
            untried("skipped", 32, message, trial_id="c"),
        ]
    )
    killed, skipped = "pytorch:eager, batch 8: the worker was killed", "batch 8 did not fit"
    assert list(errors_of(found, skipped=False)) == [killed]
    (line,) = errors_of(found, skipped=True)
    assert line.startswith(f"pytorch:eager, batch 16, 32: {skipped}")
    assert len(errors_of(found)) == 2


def test_the_interval_of_few_runs_has_its_own_confidence() -> None:
    runs = [("a", 4), ("b", 4), ("c", 2), ("d", 1), ("e", 6)]
    records = [
        record(trial_id=name, repeat=repeat, samples_per_s=100.0)
        for name, count in runs
        for repeat in range(count)
    ]
    lines = [line for line in notes_of(summarise(records)) if "confidence" in line]
    assert lines == [
        "± CI of 2 runs: lowest to highest, 50% confidence",
        "± CI of 4 runs: lowest to highest, 88% confidence",
    ]


def test_an_error_has_its_hint_below_it() -> None:
    error = Error(error_class="WorkerCrashed", message="killed\nat 0x0", hint="see its log")
    found = summarise([record(status="failed", error=error), inferred()])
    lines = list(notes_of([each for each in found if each.error]))
    assert lines == ["pytorch:eager: killed", "  hint: see its log"]


def test_a_warning_of_several_rows_is_one_line_with_the_causes_of_all() -> None:
    trials = [
        replace(
            *summarise([record(trial_id=name)]),
            warnings=(ReportWarning("others ran", detail, "end them", causes),),
        )
        for name, detail, causes in (("a", "1", ("x (1)", "y (2)")), ("b", "2", ("y (2)",)))
    ]
    ((key, rows),) = warnings_of(trials).items()
    assert key == ("others ran", "end them: x (1), y (2)")
    assert rows == ["pytorch:eager (1)", "pytorch:eager (2)"]
