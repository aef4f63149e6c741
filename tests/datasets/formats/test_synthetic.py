"""Generated sequences of tokens that have one class each."""

from pathlib import Path

import numpy as np
import pytest

from suite.datasets.formats import synthetic
from suite.errors import ManifestError
from suite.manifests import catalog
from suite.manifests.workloads import Sgd, Workload
from suite.runner import workloads

WORKLOAD = Workload(
    model="every_padded",
    dataset="synthetic",
    batch_size=64,
    optimizer=Sgd(name="sgd", learning_rate=0.1),
)


def test_padding_is_after_or_before_sequences_of_all_lengths(tmp_path: Path) -> None:
    manifest = synthetic.fitted(WORKLOAD)
    assert (manifest.vocabulary, manifest.padding_id, manifest.positions) == (64, 1, ())
    synthetic.write(manifest, tmp_path / "data", seed=5)
    tokens = np.load(tmp_path / "data" / "train_inputs.npy")
    labels = np.load(tmp_path / "data" / "train_labels.npy")
    assert tokens.dtype == np.int32 and tokens.shape == (8 * 64, 24)
    assert labels.shape == (8 * 64,) and set(labels) == set(range(10))
    lengths = (tokens != 1).sum(axis=1)
    assert set(lengths) == set(range(25))
    real, after = tokens != 1, np.arange(24) < lengths[:, None]
    ends, starts = (real == after).all(axis=1), (real == after[:, ::-1]).all(axis=1)
    assert (ends | starts).all() and ends.mean() == pytest.approx(0.5, abs=0.1)
    assert set(tokens.ravel()) == set(range(64))


def test_text_has_no_classes_of_sequences() -> None:
    of_text = WORKLOAD.model_copy(update={"dataset": "moby_dick"})
    suite = catalog.suite("zoo").model_copy(update={"workloads": (of_text,)})
    with pytest.raises(ManifestError, match="every_padded"):
        workloads.check_data(suite.workloads[0], "zoo")
