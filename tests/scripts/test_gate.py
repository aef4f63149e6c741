"""The gate of docs/how-to/gate.md: its first job, and each exit code of the later ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from suite.paths import REPOSITORY
from tests.conftest import rest_in_verify
from tests.report.test_comparison import STEADY, slowed

NOISY = (70.0, 210.0, 28.0, 112.0)
# The real dlsuite, whose runs have the rates of the next line of the file `rates`.
DLSUITE = """\
#!{python}
import sys
from pathlib import Path
sys.path.insert(0, "{repository}")
if sys.argv[1] == "run":
    from suite.results.store import RunFolder
    from tests.results.test_record import record
    line, *rest = Path("rates").read_text().splitlines()
    Path("rates").write_text("\\n".join(rest))
    name = f"run{{len(rest)}}"
    folder = RunFolder(Path("results") / name)
    folder.logs.mkdir(parents=True)
    for repeat, rate in enumerate(map(float, line.split())):
        folder.append(record(run_id=name, repeat=repeat, samples_per_s=rate))
else:
    sys.argv[0] = "dlsuite"
    from suite.cli.main import main
    sys.exit(main())
"""


def gate(folder: Path, *runs: tuple[float, ...]) -> tuple[int, str]:
    """Run the gate in `folder` with runs of these rates; its exit code and what it printed."""
    program = folder / "dlsuite"
    program.write_text(DLSUITE.format(python=sys.executable, repository=REPOSITORY))
    program.chmod(0o755)
    (folder / "rates").write_text("\n".join(" ".join(map(str, rates)) for rates in runs))
    done = subprocess.run(
        [REPOSITORY / "scripts/gate", folder / "baseline", "quick"],
        cwd=folder,
        env={**os.environ, "DLSUITE": str(program)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def first_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a runner after its first job."""
    folder = tmp_path_factory.mktemp("gate")
    code, text = gate(folder, STEADY)
    assert code == 0 and "this run is the baseline" in text
    (run,) = (folder / "results").glob("run*")
    run.rename(folder / "results" / "first")
    return folder


@pytest.fixture
def folder(first_job: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(first_job, tmp_path / "runner", symlinks=True)


@pytest.mark.parametrize(
    ("runs", "code", "text"),
    rest_in_verify(
        ([slowed(0.2)], 11, "gate: slower"),
        ([STEADY], 0, "gate: passed"),
        ([NOISY, NOISY], 14, "gate: inconclusive after two measurements"),
        ([NOISY, STEADY], 0, "gate: passed"),
        ([STEADY[:1]], 6, "gate: no comparison"),
    ),
)
def test_a_later_job_is_compared_with_the_baseline(
    folder: Path, runs: list[tuple[float, ...]], code: int, text: str
) -> None:
    found, shown = gate(folder, *runs)
    assert found == code, shown
    assert text in shown.splitlines()[-1]


def test_a_run_that_fails_ends_the_job_and_keeps_the_baseline(folder: Path) -> None:
    code, _ = gate(folder)  # no rates: the run raises an error
    assert code == 1
    assert [each.name for each in (folder / "baseline").iterdir()] == ["run0"]
