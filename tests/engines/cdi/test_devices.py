"""Containers with devices by CDI: which GPUs a worker gets, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from suite.engines.attempt import Attempt
from suite.engines.docker.engine import DockerEngine
from suite.engines.errors import FrameworkUnavailable
from suite.errors import EngineError
from suite.manifests import catalog
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
        ("GPU-bbbb,GPU-hhhh", 8, [1, 7]),
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
    on_gpus: OnGpus, run: Callable[..., Attempt]
) -> None:
    with on_gpus("0,2", 8) as engine:
        seen = run(engine, SEES).events[0]
    assert seen["nodes"] == ["nvidia0", "nvidia2"] and seen["uid"] == 10001


def test_a_gpu_that_the_engine_does_not_have_is_named(on_gpus: OnGpus) -> None:
    with pytest.raises(EngineError, match=r"cannot provide .* nvidia.com/gpu=5"):
        on_gpus("5,0", 2).__enter__()
    with pytest.raises(EngineError, match=r"cannot provide .* nvidia.com/gpu=GPU-zz"):
        on_gpus("GPU-zz", 2).__enter__()


def test_only_frameworks_with_a_lock_for_gpus_have_an_image(on_gpus: OnGpus) -> None:
    with on_gpus("1") as engine, pytest.raises(FrameworkUnavailable):
        engine.images.recipe(catalog.framework("openvino"), engine.kind)
