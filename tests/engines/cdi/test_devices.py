"""Containers with devices by CDI: which GPUs a worker gets, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from suite.engines.attempt import run_task
from suite.engines.docker.engine import DockerEngine
from suite.errors import EngineError
from suite.manifests import catalog
from suite.protocol.plan import Plan
from suite.protocol.trial_file import Task
from tests.conftest import TINY, made_up
from tests.engines.cdi.conftest import UUIDS

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("cdi")]
OnGpus = Callable[..., DockerEngine]
SEES = """
emit("seen", nodes=sorted(n for n in os.listdir("/dev") if n.startswith("nvidia")),
     visible=os.environ.get("CUDA_VISIBLE_DEVICES"), uid=os.getuid())
emit("finished")
"""


@pytest.mark.parametrize(
    ("gpus", "count", "numbers"),
    [
        ("1", 2, [0]),
        ("2", 2, [0, 1]),
        ("all", 2, [0, 1]),
        ("all", 8, [*range(8)]),
        ("8", 8, [*range(8)]),
        ("device=1", 2, [1]),
        ("0,2", 8, [0, 2]),
        ("GPU-cccc", 8, [2]),
        ("GPU-bb,GPU-hh", 8, [1, 7]),
    ],
)
def test_a_worker_gets_the_gpus_that_are_asked_for(
    on_gpus: OnGpus, gpus: str, count: int, numbers: list[int]
) -> None:
    with on_gpus(gpus, count) as engine:
        assert engine.kind == "cuda"
        assert [gpu["uuid"] for gpu in engine.host["gpus"]] == [UUIDS[n] for n in numbers]
        assert {gpu["compute_cap"] for gpu in engine.host["gpus"]} == {"9.0"}


def test_the_devices_are_in_the_container_of_a_trial(
    on_gpus: OnGpus, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick("pytorch").trials[0]
    with on_gpus("0,2", 8) as engine:
        prepared = engine.prepare(TINY, print)
        from dataclasses import replace

        engine_trial = replace(trial, framework="tiny", device="cuda:2")
        task = Task(trial=engine_trial, inputs=made_up(trial.workload, tmp_path), mode="train")
        values = {"script": SEES}
        attempt = run_task(
            engine,
            prepared,
            task,
            tmp_path / "trial",
            name="cdi-devices",
            log=tmp_path / "log",
            deadline_s=60,
            **values,
        )
    seen = attempt.events[0]
    assert seen["nodes"] == ["nvidia0", "nvidia2"] and seen["uid"] == 10001


def test_a_gpu_that_the_engine_does_not_have_is_named(on_gpus: OnGpus) -> None:
    with pytest.raises(EngineError, match=r"--gpus 5: the engine's CDI devices .* are: 0, 1"):
        on_gpus("5,0", 2).__enter__()
    with pytest.raises(EngineError, match="GPU-zz"):
        on_gpus("GPU-zz", 2).__enter__()


def test_every_framework_for_gpus_has_a_recipe_for_this_engine(on_gpus: OnGpus) -> None:
    from suite.engines.errors import FrameworkUnavailable

    with on_gpus("1") as engine:
        kinds = {each: engine.kind for each in catalog.frameworks()}
        assert set(kinds.values()) == {"cuda"}
        with pytest.raises(FrameworkUnavailable):
            engine.images.recipe(catalog.framework("openvino"), "cuda")
