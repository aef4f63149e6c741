"""`dlsuite compare` on records: every way to name a side, its errors and exit codes."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.main import get_command

from suite.cli import compare as command
from suite.cli import main
from suite.cli.options import Format
from suite.errors import Faster, Inconclusive, ResultsError, Slower, UsageError
from suite.paths import REPOSITORY
from suite.results.store import RunFolder
from tests.report.made_inference import inferred
from tests.report.test_comparison import STEADY, slowed
from tests.results.test_record import record

Compare = Callable[..., None]


def new_run(results: Path, name: str) -> RunFolder:
    folder = RunFolder(results / name)
    folder.logs.mkdir(parents=True)
    return folder


def two_rows(results: Path, name: str, rates: Sequence[float]) -> None:
    """A run of PyTorch and JAX, in which both have these rates."""
    folder = new_run(results, name)
    for framework, variant in (("pytorch", "eager"), ("jax", "jit")):
        for repeat, rate in enumerate(rates):
            folder.append(
                record(
                    run_id=name,
                    framework=framework,
                    variant=variant,
                    trial_id=framework,
                    repeat=repeat,
                    samples_per_s=rate,
                )
            )


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """`dlsuite compare` in a folder with two runs, `before` and `after`; `after` is 10 % slower."""
    for run, rates in {"before": STEADY, "after": slowed(0.1)}.items():
        two_rows(tmp_path, run, rates)

    def call(
        a: str,
        b: str,
        fail_if_slower: str | None = None,
        format: Format = Format.table,
        **options: object,
    ) -> None:
        command.compare(
            a, b, fail_if_slower=fail_if_slower, format=format, results=tmp_path, **options
        )

    return call


def test_two_runs_are_compared_row_by_row(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    compare("before", "after")
    shown = capsys.readouterr().out
    assert shown.count("slower\n") + shown.count("slower ") >= 2
    assert "jax:jit" in shown and "pytorch:eager" in shown


def test_a_folder_whose_name_has_an_at_sign_is_a_run(
    compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "after").rename(tmp_path / "me@host")
    compare("before", "me@host")
    assert "jax:jit" in capsys.readouterr().out


def test_json_has_one_pair_for_each_row(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    compare("before", "after", format=Format.json)
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert [pair["verdict"] for pair in pairs] == ["slower", "slower"]


def test_a_side_that_is_slower_than_allowed_has_its_own_exit_code(compare: Compare) -> None:
    with pytest.raises(Slower, match=r"more than 3.0%: .*0.900 times as fast") as caught:
        compare("before", "after", "3%")
    assert caught.value.exit_code == 11
    compare("before", "after", "12.5%")
    compare("after", "before", "3%")


@pytest.mark.parametrize(
    ("a", "b"),
    [("pytorch", "jax"), ("after@pytorch", "after@jax:jit"), ("after@pytorch:eager", "jax")],
)
def test_two_rows_of_a_run_are_compared(
    compare: Compare, capsys: pytest.CaptureFixture[str], a: str, b: str
) -> None:
    compare(a, b)  # the latest run is `after`
    shown = capsys.readouterr().out
    assert "pytorch:eager | jax:jit" in shown and "no difference shown" in shown


def test_a_row_named_on_one_side_applies_to_both(
    compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    compare("before@jax", "after")
    shown = capsys.readouterr().out
    assert "jax:jit" in shown and "pytorch" not in shown


def test_wrong_names_and_shares_are_refused_in_one_line(compare: Compare) -> None:
    with pytest.raises(UsageError, match="no run or framework 'befor'; nearest: 'before'"):
        compare("befor", "after")
    with pytest.raises(UsageError, match="--fail-if-slower '3' is not a percentage"):
        compare("before", "after", "3")
    with pytest.raises(ResultsError, match="has no pytorch:compiled; it has jax:jit, pytorch:eag"):
        compare("before@pytorch:compiled", "after")


def test_a_run_beside_itself_and_an_exported_file_are_no_comparison(
    compare: Compare, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="both sides have the run before"):
        compare("before", str(tmp_path / "before"), fail_if_slower="5%")
    exported = tmp_path / "baseline.tar.gz"
    exported.write_bytes(b"")
    with pytest.raises(UsageError, match="is a file") as refused:
        compare(str(exported), "after")
    assert refused.value.hint == f"dlsuite import {exported}, if exported"


def test_it_fails_where_some_rows_or_none_can_be_compared(compare: Compare, tmp_path: Path) -> None:
    other = new_run(tmp_path, "other")
    other.append(record(run_id="other", batch_size=128, samples_per_s=1.0))
    with pytest.raises(ResultsError, match=r"nothing can be compared: .*batch_size \(64, 128\)"):
        compare("before", "other")
    other.append(
        record(run_id="other", framework="jax", variant="jit", trial_id="jax", samples_per_s=100.0)
    )
    compare("before", "other")
    with pytest.raises(ResultsError, match="not all could be compared"):
        compare("before", "other", "3%")


def test_too_few_runs_do_not_pass_the_check_for_slower_runs(
    compare: Compare, tmp_path: Path
) -> None:
    for name in ("few", "also few"):
        two_rows(tmp_path, name, (100.0,))
    compare("few", "also few")
    with pytest.raises(ResultsError, match="pytorch: too few runs"):
        compare("few", "also few", "3%")


def test_a_gate_has_an_exit_code_for_each_decision(compare: Compare, tmp_path: Path) -> None:
    two_rows(tmp_path, "equal", STEADY)
    compare("before", "equal", fail_unless_within="3%")
    with pytest.raises(Slower, match=r"slower by more than 5.0%: .*0.900 times as fast"):
        compare("before", "after", fail_unless_within="5%")
    with pytest.raises(Faster, match=r"faster by more than 5.0%"):
        compare("after", "before", fail_unless_within="5%")
    two_rows(tmp_path, "noisy", (70.0, 210.0, 28.0, 112.0))
    with pytest.raises(Inconclusive, match="runs of each would decide") as caught:
        compare("before", "noisy", "3%")
    assert caught.value.exit_code == 14
    with pytest.raises(UsageError, match="exclude each other"):
        compare("before", "after", "3%", fail_unless_within="3%")


def test_another_machine_is_compared_only_on_request(
    compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new_run(tmp_path, "large")
    for repeat, rate in enumerate(STEADY):
        folder.append(
            record(
                run_id="large",
                trial_id="pytorch",
                repeat=repeat,
                samples_per_s=rate,
                environment={"cpus": [0, 1, 2, 3], "cpu": "large"},
            )
        )
    with pytest.raises(ResultsError, match=r"another machine than a: .*cores \(2, 4\)") as caught:
        compare("before@pytorch", "large")
    assert caught.value.hint.startswith("--across-machines")
    compare("before@pytorch", "large", across_machines=True)
    assert "no difference shown" in capsys.readouterr().out


def test_the_last_runs_are_one_side(compare: Compare, tmp_path: Path) -> None:
    for number in range(3):
        folder = new_run(tmp_path, f"before{number}")
        for repeat, rate in enumerate(STEADY[:2]):
            folder.append(record(run_id=folder.path.name, repeat=repeat, samples_per_s=rate))
    newest = new_run(tmp_path, "newest")
    for repeat, rate in enumerate(slowed(0.2)):
        newest.append(record(run_id="newest", repeat=repeat, samples_per_s=rate))
    with pytest.raises(Slower, match=r"0.797 times as fast"):
        compare("last:3", "newest", "3%")
    with pytest.raises(ResultsError, match="before newest, not 30"):
        compare("last:30", "newest", "3%")


def test_rows_of_two_tracks_are_compared(
    compare: Compare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new_run(tmp_path, "tracks")
    for track, rates in {"equal": slowed(0.1), "tuned": STEADY}.items():
        for repeat, rate in enumerate(rates):
            folder.append(
                record(
                    run_id="tracks",
                    track=track,
                    trial_id=f"pytorch-{track}",
                    repeat=repeat,
                    samples_per_s=rate,
                )
            )
    compare("tracks@pytorch", "tracks@pytorch/tuned")
    shown = capsys.readouterr().out
    assert "pytorch:eager | pytorch:eager/tuned" in shown and "faster" in shown


def test_a_higher_latency_fails_and_a_lower_one_does_not(compare: Compare, tmp_path: Path) -> None:
    for run, factor in {"quick": 1.0, "late": 1.05}.items():
        folder = new_run(tmp_path, run)
        for repeat in range(4):
            p50_s = 300e-6 * factor * (1 + repeat / 1000)
            folder.append(inferred(p50_s=p50_s, run_id=run, repeat=repeat))
    with pytest.raises(Slower, match=r"more than 3.0%: .*p50 latency 5\.0 % higher \(slower\)"):
        compare("quick", "late", "3%")
    compare("quick", "late", "6%")
    compare("late", "quick", "3%")


def test_the_page_about_gates_names_the_options_and_exit_codes_that_exist() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "gate.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert codes == {0, *(each.exit_code for each in (Slower, Faster, ResultsError, Inconclusive))}
    options = set(re.findall(r"--[a-z][a-z-]+", page))
    known = get_command(main.cli).commands  # type: ignore[attr-defined]
    names = {
        option
        for command_name in ("compare", "history", "run")
        for parameter in known[command_name].params
        for option in parameter.opts
    }
    assert options <= names
