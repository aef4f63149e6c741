"""The cache of the hardware peak, and the measurement that fills it."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from suite.engines.base import Engine, Prepared
from suite.manifests.files import names
from suite.paths import WORKER
from suite.protocol.plan import Plan
from suite.results import roofline, store
from suite.results.roofline import HardwarePeak, peak_of
from suite.runner.peak import CACHED_S, Cache, providers
from suite.runner.runner import Runner
from tests.conftest import ScriptEngine, Silent, made_up

PEAK = peak_of("cpu", {"pytorch": {"matmul_float32": 2e11, "copy": 3e10}})
HOST = {"cpu": "EPYC", "cpus": [0, 1], "gpus": []}


@dataclass(frozen=True)
class FakeEngine:
    """The attributes of an engine on which the cache depends."""

    name: str = "venv"
    worker_sha256: str = "0" * 64
    host: dict[str, Any] = field(default_factory=lambda: HOST)


def prepared(**locks: str) -> dict[str, Prepared]:
    """Frameworks with these locks, by name."""
    return {name: Prepared(framework=name, lock_sha256=lock) for name, lock in locks.items()}


def cache(engine: FakeEngine | None = None, *, device: str = "cpu", **locks: str) -> Cache:
    """The cache of a machine with PyTorch, or with the frameworks of `locks`."""
    found = prepared(**(locks or {"pytorch": "1" * 64}))
    return Cache(cast(Engine, engine or FakeEngine()), device, found)


def files(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


def test_nothing_is_read_before_a_measurement(home: Path) -> None:
    assert cache().read() is None


def test_a_peak_is_reused_on_the_same_machine(home: Path) -> None:
    cache().write(PEAK)
    assert cache().read() == PEAK
    assert len(files(home)) == 1


@pytest.mark.parametrize(
    "other",
    [
        cache(pytorch="2" * 64),
        cache(pytorch="1" * 64, jax="1" * 64),
        cache(FakeEngine(worker_sha256="3" * 64)),
        cache(FakeEngine(host=HOST | {"cpu": "Xeon"})),
        cache(FakeEngine(host=HOST | {"cpus": [0]})),
        cache(FakeEngine(host=HOST | {"gpus": [{"name": "H100", "uuid": "GPU-1"}]})),
        cache(FakeEngine(name="docker")),
        cache(device="cuda"),
    ],
    ids=["lock", "framework", "worker", "cpu", "cpus", "gpus", "engine", "device"],
)
def test_a_peak_is_not_reused_with_another(other: Cache, home: Path) -> None:
    cache().write(PEAK)
    assert other.read() is None
    other.write(PEAK)
    assert other.read() == PEAK
    assert len(files(home)) == 2


def test_frameworks_that_measure_no_peak_do_not_matter(home: Path) -> None:
    cache(pytorch="1" * 64).write(PEAK)
    assert cache(pytorch="1" * 64, keras="1" * 64).read() == PEAK


def test_a_peak_expires_after_a_day(home: Path) -> None:
    cache().write(PEAK)
    (file,) = files(home)
    for age_s, found in ((CACHED_S - 60, PEAK), (CACHED_S + 60, None)):
        os.utime(file, times=(time.time() - age_s,) * 2)
        assert cache().read() == found


def test_a_failed_measurement_is_not_kept(home: Path) -> None:
    cache().write(peak_of("cpu", {"pytorch": {}}))
    assert files(home) == []
    assert cache().read() is None


def test_an_invalid_file_is_no_peak(home: Path) -> None:
    cache().write(PEAK)
    (file,) = files(home)
    for text in ("device: cpu\n", "[", ""):
        file.write_text(text)
        assert cache().read() is None


def test_providers_are_the_frameworks_with_a_peak_module() -> None:
    found = [*providers(prepared(**dict.fromkeys(names("framework"), "1" * 64)))]
    assert {"jax", "mxnet", "pytorch", "tensorflow"} <= set(found) and "keras" not in found
    assert found == sorted(found)
    assert all((WORKER / "frameworks" / name / "peak.py").is_file() for name in found)
    assert [*providers(prepared(keras="1" * 64, pytorch="1" * 64))] == ["pytorch"]


MEASURES = """
if trial["mode"] != "peak":
    sys.exit(9)
with pathlib.Path(HOME, "measured").open("a") as file:
    file.write(trial["framework"] + "\\n")
rate = {"jax": 1e9, "pytorch": 2e9}[trial["framework"]]
if trial["framework"] == "jax":
    emit("peak", operation="copy", work_per_s=3e9)
emit("peak", operation="matmul_float32", work_per_s=rate)
emit("finished")
"""


@pytest.fixture
def peak_of_run(
    home: Path,
    tmp_path: Path,
    script_engine: Callable[[str], ScriptEngine],
    quick: Callable[..., Plan],
) -> Callable[..., HardwarePeak | None]:
    """Runs a plan whose worker measures a peak in mode `peak` and fails in all others."""
    home.mkdir()
    engine = script_engine(f"HOME = {str(home)!r}\n{MEASURES}")
    plan = replace(quick("pytorch", "jax"), peak=True)
    inputs = {plan.trials[0].work: made_up(plan.trials[0].workload, tmp_path)}

    def run(*, fresh_peak: bool = False) -> HardwarePeak | None:
        work_dir = tmp_path / "work"
        work_dir.mkdir(exist_ok=True)
        with store.run_folder(tmp_path / "results", plan.suite) as folder:
            runner = Runner(engine, Silent(), work_dir)
            runner.run(plan, inputs, folder, fresh_peak=fresh_peak)
            return roofline.read(folder.path)

    return run


def test_a_run_measures_the_peak_once_a_day(
    peak_of_run: Callable[..., HardwarePeak | None], home: Path
) -> None:
    measured = home / "measured"
    first = peak_of_run()
    assert first is not None and measured.read_text().split() == ["jax", "pytorch"]
    assert {name: best.framework for name, best in first.best.items()} == {
        "copy": "jax",
        "matmul_float32": "pytorch",
    }
    assert peak_of_run() == first
    assert measured.read_text().split() == ["jax", "pytorch"]
    assert peak_of_run(fresh_peak=True) == first
    assert measured.read_text().split() == ["jax", "pytorch"] * 2
