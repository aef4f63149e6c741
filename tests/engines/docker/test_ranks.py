"""Several ranks in one container, and two containers as two nodes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from suite.engines import sessions
from suite.engines.docker.client import Daemon
from suite.engines.docker.engine import DockerEngine
from suite.protocol.plan import Plan
from tests.conftest import made_up, rest_in_verify
from tests.engines.ranks import none_left, train

pytestmark = pytest.mark.docker
DEVICES = rest_in_verify("cpu:1x2", "cpu:2")


def left(label: str) -> list[object]:
    """The containers and networks with a label."""
    daemon = Daemon()
    try:
        return [*daemon.containers({label: ""}), *daemon.networks({label: ""})]
    finally:
        daemon.close()


@pytest.mark.parametrize("device", DEVICES)
def test_two_ranks_train_one_model(device: str, quick: Callable[..., Plan], tmp_path: Path) -> None:
    trial = quick("pytorch").trials[0]
    inputs, folder = made_up(trial.workload, tmp_path), tmp_path / "two-ranks"
    session = sessions.new_id()
    with sessions.session(session), DockerEngine(session) as engine:
        done = train(engine, trial, inputs, folder, device=device)
        assert (done.status, len(done.ranks)) == ("ok", 2), done.error
        assert (folder / "results" / "rank1" / "closing").is_dir()
        assert not left("dlsuite.session")


@pytest.mark.verify
@pytest.mark.parametrize("device", DEVICES)
def test_a_killed_rank_ends_the_trial_with_its_name(
    device: str, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("pytorch").trials[0]
    inputs, folder = made_up(trial.workload, tmp_path), tmp_path / "killed-rank"
    session = sessions.new_id()
    with sessions.session(session), DockerEngine(session) as engine:
        done = train(engine, trial, inputs, folder, device=device, kill=1, epochs=1000)
        assert done.status == "failed" and done.error
        ending = "the process was killed by SIGKILL; the kernel sends it when memory runs out"
        assert done.error.message == f"rank 1: {ending}"
    assert none_left(engine, folder)
    assert not left("dlsuite.session")
