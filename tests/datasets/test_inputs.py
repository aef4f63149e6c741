from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from suite.datasets import library, obtain
from suite.datasets.formats import prepared
from suite.datasets.formats.prepared import Images
from suite.datasets.inputs import Inputs
from suite.errors import DataError
from suite.manifests import catalog
from suite.manifests.losses import Loss
from suite.manifests.workloads import Sgd, Workload
from suite.models import MODELS
from suite.protocol.plan import Plan
from tests.conftest import made_up


def test_generated_targets_are_those_of_the_loss(tmp_path: Path) -> None:
    workload = Workload(
        model="db_mlp",
        dataset="synthetic",
        batch_size=8,
        optimizer=Sgd(name="sgd", learning_rate=0.01),
    )
    inputs = {
        loss: obtain.obtain(
            workload.model_copy(update={"loss": loss}),
            seed=1,
            folder=tmp_path / "inputs" / loss,
            notify=print,
        )
        for loss in get_args(Loss)
    }
    assert len({each.sha256 for each in inputs.values()}) == 3
    found = {loss: np.load(each.data / "train_labels.npy") for loss, each in inputs.items()}
    outputs = MODELS["db_mlp"]().classes
    assert (found["cross_entropy"].shape, found["cross_entropy"].dtype) == ((64,), np.int32)
    assert set(np.unique(found["binary_cross_entropy"])) == {0, 1}
    for loss in ("mean_squared_error", "binary_cross_entropy"):
        assert (found[loss].shape, found[loss].dtype) == ((64, outputs), np.float32)


def test_a_loader_needs_a_folder_of_photographs(
    quick: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = quick("pytorch").trials[0].workload.model_copy(update={"input": "loader"})
    dataset = catalog.dataset(workload.dataset)
    monkeypatch.setattr(library, "ready", lambda dataset, notify: tmp_path)
    with pytest.raises(DataError, match="needs a folder of photographs, mnist is not one"):
        obtain.obtain(workload, seed=1, folder=tmp_path, notify=print)
    photographs = dataset.model_copy(update={"format": "image_folder", "name": "imagenet"})
    monkeypatch.setattr(library, "of", lambda workload: photographs)
    gone = Images(
        source_folder=str(tmp_path / "gone"), sha256="", classes=(), samples={}, unreadable={}
    )
    prepared.write(tmp_path, "imagenet", "a folder", gone)
    with pytest.raises(DataError, match="gone, from which imagenet was prepared, no longer exists"):
        obtain.obtain(workload, seed=1, folder=tmp_path, notify=print)


@pytest.mark.parametrize(("source", "refused"), [("host", True), ("disk", False)])
def test_inputs_that_do_not_fit_in_memory_are_refused(
    source: str, refused: bool, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    workload = quick("pytorch").trials[0].workload.model_copy(update={"input": source})
    mnist = Inputs(
        architecture=MODELS["lenet"](),
        dataset=catalog.dataset("mnist"),  # 70,000 x 784 x 4 bytes
        data=tmp_path,
        weights=tmp_path,
        statistics=tmp_path,
        order=tmp_path,
        sha256="",
        origin="",
    )
    mnist.must_fit(workload, 219_520_000, 1)
    mnist.must_fit(workload, None, 1)  # unknown
    if refused:
        with pytest.raises(
            DataError, match=r"mnist takes 0\.2 GiB in memory, this machine has 0\.2"
        ):
            mnist.must_fit(workload, 219_519_999, 1)
        with pytest.raises(DataError, match=r"mnist takes 0\.4 GiB in memory of 2 workers at once"):
            mnist.must_fit(workload, 439_039_999, 2)
    else:
        mnist.must_fit(workload, 1, 1)
    answers = workload.model_copy(update={"mode": "infer", "query_samples": 32})
    mnist.must_fit(answers, 32 * 784 * 4, 1)  # inference has only these samples in memory


def test_averages_start_at_the_weights_or_in_a_state(
    quick: Callable[..., Plan], tmp_path: Path
) -> None:
    workload, other, state = quick("pytorch").trials[0].workload, tmp_path / "a", tmp_path / "b"
    plain = made_up(workload, tmp_path / "plain")
    assert workload.optimizer and plain.averages is plain.starting_from(other).averages is None
    optimizer = workload.optimizer.model_copy(update={"ema_decay": 0.9})
    changed = workload.model_copy(update={"optimizer": optimizer})
    averaged = made_up(changed, tmp_path / "averaged")
    assert averaged.averages == averaged.weights != other
    assert averaged.starting_from(other).averages == averaged.starting_from(other).weights == other
    assert replace(averaged, averages=state).starting_from(other).averages == state
