"""The CUDA of the locks, and drivers that are too old for them."""

from pathlib import Path

import pytest

from suite.engines import cuda
from suite.engines.errors import FrameworkUnavailable
from suite.manifests import catalog
from suite.paths import LOCKS

WITH_LOCKS = [
    each for each in catalog.frameworks().values() if (LOCKS / each.name / "cuda.txt").exists()
]


def test_every_cuda_lock_has_a_known_least_driver() -> None:
    assert WITH_LOCKS
    for framework in WITH_LOCKS:
        found = cuda.version(LOCKS / framework.name / "cuda.txt")
        assert found and found[0] in cuda.LEAST_DRIVERS, framework.name


@pytest.mark.parametrize(
    ("package", "driver", "fits"),
    [
        ("nvidia-cuda-runtime==13.0.96 ; sys_platform == 'linux'", "570.124.06", False),
        ("nvidia-cuda-runtime==13.0.96", "580.65.06", True),
        ("nvidia-cuda-runtime-cu12==12.9.79", "535.104.05", True),
        ("nvidia-cuda-runtime-cu12==12.9.79", "470.256.02", False),
        ("nvidia-cuda-runtime-cu11==11.8.89", "450.80.02", True),
        ("nvidia-cuda-runtime==99.0.1", "450.80.02", True),  # unknown: no message
        ("numpy==2.0.0", "450.80.02", True),
        ("nvidia-cuda-runtime==13.0.96", None, True),
    ],
)
def test_a_driver_that_is_too_old_is_named(
    tmp_path: Path, package: str, driver: str | None, fits: bool
) -> None:
    framework = catalog.framework("pytorch")
    (tmp_path / "pytorch").mkdir()
    (tmp_path / "pytorch" / "cuda.txt").write_text(f"{package} \\\n    --hash=sha256:0\n")
    reason = cuda.obstacle(framework, [{"driver_version": driver}], tmp_path)
    assert (reason is None) is fits
    assert fits or f"this machine has {driver}" in str(reason)


def test_a_framework_is_refused_before_it_is_fetched() -> None:
    with pytest.raises(FrameworkUnavailable, match="needs NVIDIA's driver 580 or newer"):
        cuda.require(catalog.framework("pytorch"), [{"driver_version": "470.1"}], print)


@pytest.mark.parametrize(
    ("framework", "capability", "is_newer"),
    [
        ("mxnet", "8.6", False),
        ("mxnet", "9.0", True),
        ("tensorflow", "9.0", False),
        ("tensorflow", "12.0", True),
        ("tensorflow", None, False),  # an older driver cannot be asked
        ("pytorch", "12.0", False),  # nothing is known
    ],
)
def test_a_gpu_that_is_newer_than_the_kernels_is_named_before_the_download(
    framework: str, capability: str | None, is_newer: bool
) -> None:
    gpu = {"name": "H100", "driver_version": "590.48", "compute_cap": capability}
    messages: list[str] = []
    cuda.require(catalog.framework(framework), [gpu], messages.append)
    assert len(messages) == is_newer
    assert not is_newer or f"H100 (compute capability {capability}) is newer" in messages[0]
    cuda.require(catalog.framework("pytorch"), [], print)
