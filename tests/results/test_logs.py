"""The files that a worker leaves in a run's logs/."""

from pathlib import Path

from suite.results import logs, store
from tests.report.made_run import made_run


def test_missing_logs_are_empty_and_invalid_lines_are_omitted(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    crashed = next(each for each in store.read(folder) if each.status == "failed")
    assert logs.end_of_log(folder, crashed, lines=1) == "<b>Killed</b> & gone"
    assert logs.samples(folder, crashed) == []
    (folder / "logs" / f"{crashed.name}.telemetry.jsonl").write_text('{"monotonic_ns": 1}\n{"mono')
    assert logs.samples(folder, crashed) == [{"monotonic_ns": 1}]
    (folder / "logs" / "keras-r0.log").unlink()
    assert logs.end_of_log(folder, crashed, lines=1) == ""
