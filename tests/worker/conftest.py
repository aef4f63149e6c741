from pathlib import Path

import pytest

from suite.worker.protocol import Trial


@pytest.fixture
def trial(trial_folder: Path) -> Trial:
    """A trial on 200 made-up images."""
    return Trial.read(trial_folder)
