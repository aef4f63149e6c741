"""The sampler and pynvml, with a substitute for NVIDIA's library."""

# ruff: noqa: N802, the names are those of pynvml

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from suite.protocol.events import Event
from suite.results.logs import samples_of
from suite.results.telemetry import Energy, Telemetry
from suite.runner import telemetry
from suite.runner.telemetry import Sample
from suite.worker.protocol import Trial
from suite.worker.telemetry import FILE, Gpu, Rapl, sampling

IDLE_S, BUSY_S, INTERVAL_S = 0.3, 0.9, 0.05
CLOSE = 0.1  # relative; a sample may be 10 ms late on a busy machine
WORK = """
import sys, time
block = bytearray(50_000_000)
while True:
    time.sleep(0.001)
"""


@dataclass(frozen=True)
class Sampled:
    samples: list[Sample]
    events: list[Event]  # of a worker with one block, from the idle time to the end

    def summary(self) -> Telemetry:
        found = telemetry.summarise(self.samples, self.events, processed=100)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled substitute."""
    folder = tmp_path_factory.mktemp("nvml")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("this machine has no C compiler")
    source = Path(__file__).with_name("fake_nvml.c")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, source], check=True)
    return folder


@pytest.fixture
def sample(library: Path, tmp_path: Path) -> Callable[..., Sampled]:
    def sample(fault: str = "fine", gpu: str = "0", **environ: str) -> Sampled:
        """Samples of a process that has 50 MB and sleeps, and of a GPU with `fault`."""
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
                started = time.monotonic_ns()
                time.sleep(BUSY_S)
                ended = time.monotonic_ns()
                sampler.stdin.close()
                assert sampler.wait() == 0
            worker.kill()
        duration_s = (ended - started) / 1e9
        block = {"event": "block", "monotonic_ns": ended, "duration_s": duration_s}
        first = {"event": "started", "monotonic_ns": started, "import_s": 0}
        samples = [json.loads(line) for line in path.read_text().splitlines()]
        return Sampled(samples, [first, block])

    return sample


def energy(sampled: Sampled) -> Energy:
    gpu = sampled.summary().gpu
    assert gpu is not None and gpu.energy is not None
    return gpu.energy


def mean_power_w(sampled: Sampled) -> float:
    (window,) = telemetry.windows(sampled.events)
    return energy(sampled).gross_j / ((window[1] - window[0]) / 1e9)


def test_the_energy_counter_gives_the_energy_of_the_blocks_and_of_the_idle_machine(
    sample: Callable[..., Sampled],
) -> None:
    sampled = sample()
    found = energy(sampled)
    assert found.source == "counter"
    assert mean_power_w(sampled) == pytest.approx(100, rel=CLOSE)
    assert found.idle_power_w == pytest.approx(100, rel=CLOSE)
    assert found.idle_power_w is not None and found.net_j is not None
    duration_s = found.gross_j / mean_power_w(sampled)
    assert found.net_j == pytest.approx(found.gross_j - found.idle_power_w * duration_s)
    assert found.gross_j_per_sample == found.gross_j / 100


@pytest.mark.parametrize("fault", ["absent", "wraps", "fails"])
def test_without_a_usable_counter_power_is_integrated_and_reported_as_the_source(
    sample: Callable[..., Sampled], fault: str
) -> None:
    sampled = sample(fault)
    assert energy(sampled).source == "power"
    assert mean_power_w(sampled) == pytest.approx(100, rel=0.01)


def test_unknown_values_of_a_gpu_that_vanishes_are_null(sample: Callable[..., Sampled]) -> None:
    gpu = sample("vanishes").summary().gpu
    assert gpu is not None and gpu.uuid == "GPU-aaaa"
    assert gpu.energy is None
    assert gpu.used_peak_bytes == 2**30  # from the samples before it vanished


def test_clocks_memory_throttling_and_other_processes(sample: Callable[..., Sampled]) -> None:
    gpu = sample().summary().gpu
    assert gpu is not None
    assert (gpu.used_peak_bytes, gpu.used_mean_bytes) == (2**30, 2**30)
    assert gpu.utilisation == pytest.approx(0.9)
    assert (gpu.sm_clock_mhz, gpu.sm_clock_min_mhz) == (1500, 1500)
    assert (gpu.temperature_max_c, gpu.throttled) == (60, ("power cap",))
    assert gpu.other_processes == 1


def test_uuids_identify_two_gpus_in_any_order_of_cuda(
    sample: Callable[..., Sampled],
) -> None:
    swapped = sample(CUDA_VISIBLE_DEVICES="1,0").summary().gpu
    assert swapped is not None and swapped.uuid == "GPU-bbbb"
    assert (swapped.used_peak_bytes, swapped.throttled) == (2**31, ())
    by_name = sample(CUDA_VISIBLE_DEVICES="GPU-bbbb,GPU-aaaa", gpu="1").summary().gpu
    assert by_name is not None and by_name.uuid == "GPU-aaaa"
    absent = sample(CUDA_VISIBLE_DEVICES="1", gpu="1").summary()
    assert absent.gpu is None
    assert absent.problems["gpu"] == "NVML does not find the GPU that CUDA numbers 1"


def test_without_the_library_of_nvidia_the_gpu_is_unknown(
    sample: Callable[..., Sampled], tmp_path: Path
) -> None:
    sampled = sample(LD_LIBRARY_PATH=str(tmp_path))
    found = sampled.summary()
    assert found.gpu is None
    assert found.problems["gpu"] == "NVML cannot be used: NVML Shared Library Not Found"


def test_memory_and_cpu_time_of_the_worker(sample: Callable[..., Sampled]) -> None:
    found = sample().summary()
    assert found.rss_peak_bytes is not None and 50e6 < found.rss_peak_bytes < 100e6
    assert found.cores is not None and 0 <= found.cores < 0.5
    assert found.sampler_cores is not None and found.sampler_cores > 0
    assert found.other_cores is not None and found.samples >= BUSY_S / INTERVAL_S / 2


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "parity"},
        {"mode": "replay"},
        {"mode": "peak"},
        {"measure": {"sample_s": 0}},
        {"paths": {"interleaving": "folder"}},
    ],
)
def test_only_a_timed_run_that_is_not_interleaved_is_sampled(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(TypeError), sampling(trial):
        pass
    with sampling(replace(trial, **changes)):
        pass


def test_a_worker_goes_on_without_a_sampler_whose_driver_does_not_answer(
    trial: Trial, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_NVML", "hangs")
    monkeypatch.setattr("suite.worker.telemetry.ANSWER_S", 0.5)
    hangs = replace(trial, device="cuda:0", measure={"sample_s": INTERVAL_S})
    with sampling(hangs):
        pass
    (line,) = samples_of(Path(trial.paths["results"]) / FILE)
    assert "did not start within 0.5 s" in line["problem"]


def test_a_package_with_two_registers_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("intel-rapl:0", "intel-rapl-mmio:0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text("package-0\n")
        (tmp_path / name / "energy_uj").write_text("1\n")
    monkeypatch.setattr("suite.worker.telemetry.RAPL", tmp_path)
    assert [each.name for each in Rapl().domains] == ["intel-rapl:0"]


def test_rapl_counters_continue_after_their_maximum(
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
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("100000\n")  # 0.2 J more, past its maximum
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("500000\n")
    assert rapl() == {"rapl_j": pytest.approx(0.7)}
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert rapl() == {"rapl_j": None}


class OldNvml:
    """An old package: UUIDs are bytes, and only a few functions exist."""

    @staticmethod
    def nvmlInit() -> None: ...

    @staticmethod
    def nvmlDeviceGetCount() -> int:
        return 2**32 - 1

    @staticmethod
    def nvmlDeviceGetHandleByIndex(index: int) -> int:
        if index > 11:
            raise OSError
        return index

    @staticmethod
    def nvmlDeviceGetUUID(handle: int) -> bytes:
        return f"GPU-{handle:02d}".encode()

    @staticmethod
    def nvmlDeviceGetTotalEnergyConsumption(handle: int) -> int:
        return 1000 * (handle + 1)


class DividedNvml(OldNvml):
    """The first board has two MIG slices."""

    @staticmethod
    def nvmlDeviceGetMigMode(handle: int) -> tuple[int, int]:
        return (1, 1) if handle == 0 else (0, 0)

    @staticmethod
    def nvmlDeviceGetMaxMigDeviceCount(handle: int) -> int:
        return 7

    @staticmethod
    def nvmlDeviceGetMigDeviceHandleByIndex(handle: int, index: int) -> int:
        return 100 + index

    @staticmethod
    def nvmlDeviceGetHandleByUUID(uuid: str) -> int:
        return {"MIG-101": 101}[uuid]

    @staticmethod
    def nvmlDeviceGetUUID(handle: int) -> bytes:
        return f"{'MIG' if handle >= 100 else 'GPU'}-{handle:02d}".encode()


class OddNvml(OldNvml):
    """A UUID that is no UTF-8, and values of other types; one device of all answers."""

    @staticmethod
    def nvmlDeviceGetHandleByIndex(index: int) -> int:
        if index != 5:
            raise OSError("Unknown Error")
        return index

    @staticmethod
    def nvmlDeviceGetUUID(handle: int) -> bytes:
        return b"GPU-\xff5"

    @staticmethod
    def nvmlDeviceGetTotalEnergyConsumption(handle: int) -> Any:
        return b"5000"

    @staticmethod
    def nvmlDeviceGetMemoryInfo(handle: int) -> Any:
        return {"used": 1}

    @staticmethod
    def nvmlDeviceGetUtilizationRates(handle: int) -> Any:
        return None

    @staticmethod
    def nvmlDeviceGetComputeRunningProcesses(handle: int) -> Any:
        return 3


@pytest.mark.parametrize(
    ("nvml", "visible", "uuid", "energy_j"),
    [
        (OldNvml, "", "GPU-00", 1.0),
        (OldNvml, "11", "GPU-11", 12.0),
        (OldNvml, "GPU-10", "GPU-10", 11.0),
        (DividedNvml, "", "MIG-100", None),
        (DividedNvml, "MIG-101", "MIG-101", None),
        (DividedNvml, "1", "GPU-01", 2.0),
        (OddNvml, "5", "GPU-\ufffd5", None),
    ],
)
def test_other_packages_and_divided_boards(
    monkeypatch: pytest.MonkeyPatch,
    nvml: type[OldNvml],
    visible: str,
    uuid: str,
    energy_j: float | None,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpu = Gpu("0")()["gpu"]
    assert (gpu["uuid"], gpu["energy_j"], gpu["used_bytes"]) == (uuid, energy_j, None)
