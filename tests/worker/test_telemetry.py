"""The real sampler with the real pynvml, on a library that stands in for NVIDIA's."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite.protocol.events import Event
from suite.results import telemetry
from suite.results.telemetry import Sample
from suite.worker.telemetry import FILE, Rapl

IDLE_S, BUSY_S, INTERVAL_S = 0.3, 0.9, 0.05
CLOSE = 0.1  # a sample may come 10 ms late on a busy machine
WORK = """
import sys, time
block = bytearray(50_000_000)
while True:
    time.sleep(0.001)
"""


@dataclass(frozen=True)
class Watched:
    samples: list[Sample]
    said: list[Event]  # what a worker with one block from the idle window to the end would say

    def summary(self) -> telemetry.Telemetry:
        found = telemetry.summarise(self.samples, self.said, trained=100)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in, compiled."""
    folder = tmp_path_factory.mktemp("nvml")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source = Path(__file__).with_name("fake_nvml.c")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, source], check=True)
    return folder


@pytest.fixture
def watch(library: Path, tmp_path: Path) -> Callable[..., Watched]:
    def watch(fault: str = "fine", gpu: str = "0", **environ: str) -> Watched:
        """Samples of a process that has 50 MB and sleeps, and of a GPU with this fault."""
        environ = {**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML": fault, **environ}
        path = tmp_path / FILE
        path.unlink(missing_ok=True)
        with subprocess.Popen([sys.executable, "-c", WORK]) as worker:
            times = [str(INTERVAL_S), str(IDLE_S)]
            command = [sys.executable, "-m", "suite.worker.telemetry", path, str(worker.pid)]
            with subprocess.Popen(
                [*command, *times, gpu],
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as sampler:
                assert sampler.stdin and sampler.stdout
                assert sampler.stdout.readline() == "ready\n"
                begun = time.monotonic_ns()
                time.sleep(BUSY_S)
                ended = time.monotonic_ns()
                sampler.stdin.close()
                assert sampler.wait() == 0
            worker.kill()
        block = {"event": "block", "monotonic_ns": ended, "duration_s": (ended - begun) / 1e9}
        started = {"event": "started", "monotonic_ns": begun, "import_s": 0}
        return Watched(telemetry.read(path), [started, block])

    return watch


def energy(watched: Watched) -> telemetry.Energy:
    gpu = watched.summary().gpu
    assert gpu is not None and gpu.energy is not None
    return gpu.energy


def mean_power_w(watched: Watched) -> float:
    (window,) = telemetry.windows(watched.said)
    return energy(watched).gross_j / ((window[1] - window[0]) / 1e9)


def test_the_counter_says_what_the_blocks_took_and_what_of_it_the_idle_machine(
    watch: Callable[..., Watched],
) -> None:
    watched = watch()
    found = energy(watched)
    assert found.source == "counter"
    assert mean_power_w(watched) == pytest.approx(100, rel=CLOSE)
    assert found.idle_power_w == pytest.approx(100, rel=CLOSE)
    assert found.idle_power_w is not None and found.net_j is not None
    duration_s = found.gross_j / mean_power_w(watched)
    assert found.net_j == pytest.approx(found.gross_j - found.idle_power_w * duration_s)
    assert found.gross_j_per_sample == found.gross_j / 100


@pytest.mark.parametrize("fault", ["absent", "wraps", "fails"])
def test_where_the_counter_is_of_no_use_power_is_integrated_and_said_to_be(
    watch: Callable[..., Watched], fault: str
) -> None:
    watched = watch(fault)
    assert energy(watched).source == "power"
    assert mean_power_w(watched) == pytest.approx(100, rel=0.01)


def test_of_a_gpu_that_vanishes_what_is_not_known_is_null(watch: Callable[..., Watched]) -> None:
    gpu = watch("vanishes").summary().gpu
    assert gpu is not None and gpu.uuid == "GPU-aaaa"
    assert gpu.energy is None
    assert gpu.used_peak_bytes == 2**30  # while it was there


def test_clocks_memory_throttling_and_other_processes(watch: Callable[..., Watched]) -> None:
    gpu = watch().summary().gpu
    assert gpu is not None
    assert (gpu.used_peak_bytes, gpu.used_mean_bytes) == (2**30, 2**30)
    assert gpu.utilisation == pytest.approx(0.9)
    assert (gpu.sm_clock_mhz, gpu.sm_clock_min_mhz) == (1500, 1500)
    assert (gpu.temperature_max_c, gpu.throttled) == (60, ("power cap",))
    assert gpu.other_processes == 1


def test_two_gpus_are_told_apart_by_uuid_however_cuda_numbers_them(
    watch: Callable[..., Watched],
) -> None:
    swapped = watch(CUDA_VISIBLE_DEVICES="1,0").summary().gpu
    assert swapped is not None and swapped.uuid == "GPU-bbbb"
    assert (swapped.used_peak_bytes, swapped.throttled) == (2**31, ())
    by_name = watch(CUDA_VISIBLE_DEVICES="GPU-bbbb,GPU-aaaa", gpu="1").summary().gpu
    assert by_name is not None and by_name.uuid == "GPU-aaaa"
    assert watch(CUDA_VISIBLE_DEVICES="1", gpu="1").summary().gpu is None


def test_without_nvidias_library_the_gpu_is_unknown(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    watched = watch(LD_LIBRARY_PATH=str(tmp_path))
    assert watched.samples[0]["gpu"] is None
    assert watched.summary().gpu is None


def test_the_workers_memory_and_processor_time(watch: Callable[..., Watched]) -> None:
    found = watch().summary()
    assert found.rss_peak_bytes is not None and 50e6 < found.rss_peak_bytes < 100e6
    assert found.cores is not None and 0 <= found.cores < 0.5
    assert found.sampler_cores is not None and found.sampler_cores > 0
    assert found.other_cores is not None and found.samples >= BUSY_S / INTERVAL_S / 2


def test_rapl_counters_add_up_over_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (name, start) in enumerate([("package-0", 900_000), ("package-1", 0), ("dram", 0)]):
        domain = tmp_path / f"intel-rapl:{number}"
        domain.mkdir()
        (domain / "name").write_text(f"{name}\n")
        (domain / "energy_uj").write_text(f"{start}\n")
        (domain / "max_energy_range_uj").write_text("1000000\n")
    monkeypatch.setattr("suite.worker.telemetry.RAPL", tmp_path)
    rapl = Rapl()
    assert len(rapl.domains) == 2
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("100000\n")  # 0.2 J on, past its end
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("500000\n")
    assert rapl() == {"rapl_j": pytest.approx(0.7)}
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert rapl() == {"rapl_j": None}
