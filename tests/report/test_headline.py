"""The answer below the table of a run with one workload."""

from pathlib import Path

import pytest

from suite.cli import session
from suite.report import headline, markdown, run_data
from suite.results.record import Record
from tests.results.test_record import record

FOLDER = "20261130-120000-quick"


def rows(jax: float) -> list[Record]:
    """Six proven runs of PyTorch, and of JAX with `jax` times its rate."""
    return [
        record(
            trial_id=framework,
            framework=framework,
            repeat=repeat,
            samples_per_s=share * (1000.0 + repeat),
        )
        for framework, share in (("pytorch", 1.0), ("jax", jax))
        for repeat in range(6)
    ]


@pytest.mark.parametrize(
    ("jax", "expected"),
    [(0.5, "PyTorch eager is fastest: "), (1.0, "no difference to the first of them is shown.")],
)
def test_a_run_of_one_workload_has_its_answer_in_the_terminal_and_in_markdown(
    jax: float, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, records = tmp_path / FOLDER, rows(jax)
    run = run_data.of(folder, records)
    answer = headline.of_run(run)
    assert answer and expected in answer
    assert answer in markdown.of_run(run).split("\n\n")
    session.show(records, folder)
    assert " ".join(answer.split()) in " ".join(capsys.readouterr().out.split())


def test_one_row_has_no_answer(tmp_path: Path) -> None:
    assert headline.of_run(run_data.of(tmp_path / FOLDER, rows(1.0)[:6])) is None
