"""A run beside the publication that it repeats: figures, findings, differences."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.errors import UsageError
from suite.manifests.papers import Claim, Finding, Side
from suite.manifests.workloads import RmsProp, Workload
from suite.report import paper_table, run_data
from suite.report.paper import JudgedClaim, JudgedFinding, Paper, Ratio
from suite.results import store
from suite.results.equivalence import RatioInterval
from suite.results.record import Epoch, Parity, Record
from tests.report.made_run import ENVIRONMENT, made_run
from tests.results.test_record import CLOSED, record

RATES = {"theano": 300_000.0, "tensorflow": 100_000.0}
WORKLOAD = Workload(
    model="db_mlp",
    dataset="tabular",
    batch_size=128,
    optimizer=RmsProp(name="rmsprop", learning_rate=0.001),
    epochs=20,
)


def records() -> Iterator[Record]:
    for framework, rate in RATES.items():
        for repeat in range(4):
            yield record(
                run_id="20261128-120000-db_2016",
                suite="db_2016",
                trial_id=framework,
                framework=framework,
                framework_version="1.2",
                variant="cxx" if framework == "theano" else "graph",
                track="equal",
                workload=WORKLOAD,
                environment=ENVIRONMENT,
                repeat=repeat,
                samples_per_s=rate * (1 + 0.01 * repeat),
                parity=Parity(proven=True, steps=10, closing=CLOSED),
                epochs=tuple(_epochs()) if repeat == 0 else (),
            )


def _epochs() -> Iterator[Epoch]:
    for number in range(1, 21):
        yield Epoch(
            epoch=number,
            duration_s=1 + 0.1 * (number % 2),
            train_loss=1,
            train_accuracy=0.5,
            test_loss=1,
            test_accuracy=0.5,
        )


def paper_run(place: Path) -> Path:
    """A run of db-2016 on a CPU."""
    folder = store.RunFolder(place / "20261128-120000-db_2016")
    folder.path.mkdir()
    for each in records():
        folder.append(each)
    return folder.path


@pytest.fixture
def found(tmp_path: Path) -> Paper:
    return Paper(run_data.read(paper_run(tmp_path)))


def test_a_training_time_is_the_published_samples_over_the_measured_rate(found: Paper) -> None:
    """2000 epochs of 107,546 rows; the median rate is that of the middle runs."""
    row = next(row for row in found.rows if row.cell.framework == "theano" and row.trial)
    assert row.measured and row.cell.value == 2294.6760
    assert row.measured.value == pytest.approx(2000 * 107_546 / (300_000 * 1.015))
    assert row.measured.low and row.measured.high
    assert row.measured.low < row.measured.value < row.measured.high
    assert row.ratio == pytest.approx(row.measured.value / 2294.6760)


def test_figures_of_other_devices_are_not_measured(found: Paper) -> None:
    measured = {row.cell.hardware for row in found.rows if row.measured}
    assert measured == {"thinkpad-w541-i7-4810mq", "desktop-i7-6700k"}


def test_a_finding_is_judged_by_the_whole_interval(found: Paper) -> None:
    """Three times as fast: above 2 by the whole interval; there is no GPU."""
    on_cpu, on_gpu = found.findings
    assert (on_cpu.verdict, on_gpu.verdict) == ("holds", "not measured")
    ratio = on_cpu.claims[0].ratios[0]
    assert ratio.measured and ratio.measured.ratio == pytest.approx(3)
    laptop, desktop = 5045.6896 / 2294.6760, 4474.0128 / 1683.2134
    assert ratio.published == pytest.approx((laptop, desktop))


def test_what_differs_names_the_machine_and_the_epochs(found: Paper) -> None:
    rows = {name: (published, here) for name, published, here in found.differences()}
    assert rows["hardware"][1] == "A made-up processor, 2 cores"
    assert rows["software"][1] == "tensorflow 1.2, theano 1.2"
    assert rows["epochs of db_mlp"] == ("2000", "20")


def test_the_terminal_counts_what_was_not_measured(
    found: Paper, capsys: pytest.CaptureFixture[str]
) -> None:
    from suite.report.table import console

    console().print(paper_table.render(found, 200))
    shown = capsys.readouterr().out
    assert "4 published figures were not measured" in shown
    assert "holds" in shown and "not measured" in shown


def test_markdown_lists_every_published_figure(found: Paper) -> None:
    text = paper_table.markdown(found)
    assert text.count("| train_s |") == 8
    assert "4,695" in text  # TensorFlow on the GTX 980 Ti, which was not measured


def test_a_run_of_another_suite_repeats_no_publication(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="repeats no published comparison"):
        Paper(run_data.read(made_run(tmp_path)))


def judged(low: float, high: float, **limit: float) -> JudgedClaim:
    side = Side(framework="jax")
    interval = RatioInterval(ratio=(low + high) / 2, low=low, high=high, deviation=0.1)
    ratio = Ratio(of=side, to=side, published=(), measured=interval, missing=None)
    return JudgedClaim(claim=Claim(of=side, to=(side,), **limit), ratios=(ratio,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "limit", "verdict"),
    [
        (1.1, 1.3, {"above": 1}, "holds"),
        (0.7, 0.9, {"above": 1}, "does not hold"),
        (0.9, 1.1, {"above": 1}, "inconclusive"),
        (0.7, 0.9, {"below": 1}, "holds"),
        (1.1, 1.3, {"below": 1}, "does not hold"),
        (1.1, 1.3, {}, ""),
    ],
)
def test_a_claim_has_a_side(low: float, high: float, limit: dict[str, float], verdict: str) -> None:
    assert judged(low, high, **limit).verdict == verdict


def test_a_claim_against_several_is_judged_by_the_worst() -> None:
    """One that is refuted refutes it, even where another was not measured."""
    faster, slower = judged(2, 3, above=1), judged(0.4, 0.5, above=1)
    absent = Ratio(
        of=Side(), to=Side(framework="caffe"), published=(), measured=None, missing="caffe"
    )
    claim = faster.claim
    both = (*faster.ratios, *slower.ratios)
    assert JudgedClaim(claim=claim, ratios=both).verdict == "does not hold"
    assert JudgedClaim(claim=claim, ratios=(*both, absent)).verdict == "does not hold"
    assert JudgedClaim(claim=claim, ratios=(*faster.ratios, absent)).verdict == "not measured"


@pytest.mark.parametrize(
    ("holding", "failing", "open_", "most", "all_"),
    [
        (3, 1, 0, "holds", "does not hold"),
        (2, 2, 0, "does not hold", "does not hold"),
        (2, 1, 1, "inconclusive", "does not hold"),
        (3, 0, 1, "holds", "inconclusive"),
        (3, 0, 0, "holds", "holds"),
        (0, 0, 0, "not measured", "not measured"),
    ],
)
def test_most_is_more_than_half_of_the_measured_claims(
    holding: int, failing: int, open_: int, most: str, all_: str
) -> None:
    claims = (
        *[judged(1.1, 1.2, above=1)] * holding,
        *[judged(0.8, 0.9, above=1)] * failing,
        *[judged(0.9, 1.1, above=1)] * open_,
    )
    for quorum, verdict in {"most": most, "all": all_}.items():
        finding = Finding(
            statement="x",
            claims=(Claim(of=Side(), to=(Side(),)),),
            quorum=quorum,  # type: ignore[arg-type]
        )
        assert JudgedFinding(finding=finding, claims=claims).verdict == verdict
