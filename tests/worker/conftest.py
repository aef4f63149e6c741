from collections.abc import Callable
from pathlib import Path

import pytest

from suite import datasets, inputs
from suite.manifest import DatasetManifest, Measure
from suite.plan import Plan
from suite.worker import host
from suite.worker.protocol import Trial


@pytest.fixture
def trial(
    home: Path, digits: tuple[DatasetManifest, Path], quick: Callable[..., Plan], tmp_path: Path
) -> Trial:
    """A trial on 200 made-up digits."""
    dataset, raw = digits
    data = datasets.prepare(dataset, say=lambda text: None, source=raw)
    planned = quick("pytorch")
    work = planned.trials[0].workload
    given = inputs.make(work, dataset, data=data, seed=3, place=tmp_path / "inputs")
    folder = tmp_path / "trial"
    inputs.write_trial(
        folder,
        planned.trials[0],
        given,
        mode="train",
        measure=Measure(),
        cpus=host.cpus(),
        epochs=1,
    )
    return Trial.read(folder)
