"""Published comparisons: their manifests, and their figures as cells."""

from collections import Counter

import pytest

from suite.errors import UsageError
from suite.manifests import catalog, papers
from suite.manifests.files import names
from suite.manifests.papers import Claim, Side
from suite.models import MODELS
from suite.paths import MANIFESTS

FOLDER = MANIFESTS / "papers"
PARAMETERS = {"kent_small": 101_770, "kent_medium": 220_234, "kent_big": 1_683_722}
ALL = names("paper")


def test_there_are_five() -> None:
    assert ALL == ["adnn-2023", "db-2016", "ee147-2018", "kent-2023", "upv-2018"]


@pytest.mark.parametrize("name", ALL)
def test_a_manifest_names_what_exists(name: str) -> None:
    """A framework of that time may be missing here, a model or a suite may not."""
    found = papers.paper(name)
    assert papers.paper_of(found.suite.name) == found
    models = {workload.model for workload in found.suite.workloads}
    sides = [
        side
        for finding in found.findings
        for claim in finding.single_claims()
        for side in (claim.of, *claim.to)
    ]
    assert {side.model for side in sides} - {None} <= models
    if found.figures:
        assert set(found.figures.models.values()) <= models


@pytest.mark.parametrize("name", [name for name in ALL if papers.paper(name).figures])
def test_every_published_name_means_something_here(name: str) -> None:
    figures = papers.paper(name).figures
    assert figures
    cells = papers.cells(figures, FOLDER)
    assert {cell.framework for cell in cells} == figures.frameworks.keys()
    assert {cell.model for cell in cells} - {""} == figures.models.keys()
    assert {cell.hardware for cell in cells} == figures.devices.keys()
    assert {cell.measure for cell in cells} <= set(figures.measures.values())


def test_the_models_of_kent_have_the_published_numbers_of_parameters() -> None:
    for name, count in PARAMETERS.items():
        assert MODELS[name]().parameter_count == count


def test_a_cell_that_the_publication_left_empty_has_no_value() -> None:
    """adnn-2023 has no PyTorch on a TPU, and no JAX on a CPU and on a TPU."""
    figures = papers.paper("adnn-2023").figures
    assert figures
    cells = papers.cells(figures, FOLDER)
    assert len(cells) == 3 * 3 * 2
    empty = {(cell.framework, cell.hardware) for cell in cells if cell.value is None}
    assert empty == {("pytorch", "tpu"), ("jax", "cpu"), ("jax", "tpu")}


def test_the_figures_of_upv_are_complete() -> None:
    """Five frameworks, nine networks with their data, five set-ups, three measures."""
    figures = papers.paper("upv-2018").figures
    assert figures
    cells = papers.cells(figures, FOLDER)
    assert Counter(cell.measure for cell in cells) == dict.fromkeys(
        ("samples_per_s", "gpu_memory_mib", "gpu_power_w"), 5 * 9 * 5
    )
    caffe = next(cell for cell in cells if (cell.framework, cell.hardware) == ("caffe", "1xK20m"))
    assert (caffe.model, caffe.value) == ("mnist/lenet", 19807)


def test_the_means_of_epochs_are_cells_and_their_durations_are_kept() -> None:
    figures = papers.paper("kent-2023").figures
    assert figures
    cells = {
        (cell.framework, cell.model, cell.hardware): cell.value
        for cell in papers.cells(figures, FOLDER)
        if cell.measure == "epoch_s"
    }
    assert cells["flux", "medium", "cpu"] == 255.20
    assert cells["flux", "small", "cpu"] is None
    durations = papers.epochs_s(figures, FOLDER)["flux", "medium", "cpu"]
    assert len(durations) == 9 and durations[0] == 249.0  # without the first one, 312.03


def test_a_claim_is_one_for_each_model_and_device() -> None:
    claim = Claim(
        of=Side(framework="mxnet"),
        to=(Side(framework="jax", device="cpu"),),
        models=("lenet", "alexnet"),
        devices=("cuda",),
        above=1,
    )
    first, second = claim.each()
    assert str(first.of) == "mxnet, lenet, cuda" and str(second.of) == "mxnet, alexnet, cuda"
    assert str(first.to[0]) == "jax, lenet, cpu"  # its own device stays


def test_above_and_below_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="above and below exclude each other"):
        Claim(of=Side(), to=(Side(),), above=1, below=1)


def test_an_unknown_paper_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown paper 'kent-2032'.*kent-2023"):
        papers.suite("papers/kent-2032")


def test_other_names_are_those_of_suites() -> None:
    assert papers.suite("quick") == catalog.suite("quick")
    assert papers.paper_of("quick") is None
