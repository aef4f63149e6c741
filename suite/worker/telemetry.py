"""The sampler: a process that samples the load of a worker and of its machine.

`python -m suite.worker.telemetry FILE PID INTERVAL_S IDLE_S [GPU]` samples the worker PID until
standard input ends. It appends one JSON object per line to FILE, with the time on the monotonic
clock, which all processes of a machine share. It prints `ready` when the worker may start. Where
power is readable, it samples the idle machine for IDLE_S before that. GPU is CUDA's number of the
device.

It uses psutil and pynvml. Unreadable values are null.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from .protocol import Trial

FILE = "telemetry.jsonl"
READY = "ready"
# A driver may never answer. The sampler is killed when it takes longer than this to start, in
# addition to its idle time, or to end: the worker goes on, and its record has no telemetry.
ANSWER_S = 60.0
FIND_CHILDREN_S = 2.0  # between searches for the worker's children, the most expensive part
MOST_GPUS = 256  # a larger count is an error of the driver
RAPL = Path("/sys/class/powercap")

T = TypeVar("T")
Sample = dict[str, Any]


@contextmanager
def sampling(trial: Trial) -> Iterator[None]:
    """Sample during the block, if the trial asks for it and times a model."""
    process = start(trial)
    try:
        yield
    finally:
        if process and process.stdin:
            process.stdin.close()
            try:
                code = process.wait(ANSWER_S)
                if code:
                    ended = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
                    _note(trial, f"the sampler {ended}")
            except subprocess.TimeoutExpired:
                process.kill()
                _note(trial, f"the sampler did not end within {ANSWER_S:g} s, and was killed")
            assert process.stdout
            process.stdout.close()


def start(trial: Trial) -> subprocess.Popen[bytes] | None:
    """The sampler's process; None where it does not start or is not wanted.

    It is wanted where the trial asks for it and times a model.

    Interleaved workers are not sampled: the interval is too long to separate their blocks.
    """
    interval_s = trial.measure.get("sample_s", 0)
    if trial.mode not in ("train", "infer") or "interleaving" in trial.paths or not interval_s:
        return None
    device, _, number = trial.device.partition(":")
    command = [sys.executable, "-m", __name__, str(Path(trial.paths["results"]) / FILE)]
    command += [str(os.getpid()), str(interval_s), str(trial.measure.get("idle_s", 0))]
    command += [number or "0"] if device == "cuda" else []
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    limit_s = ANSWER_S + trial.measure.get("idle_s", 0)
    if not select.select([process.stdout], [], [], limit_s)[0]:
        process.kill()
        _note(trial, f"the sampler did not start within {limit_s:g} s, and was killed")
        return None
    process.stdout.readline()  # empty where the sampler has ended; its samples then end early
    return process


def _note(trial: Trial, problem: str) -> None:
    """Write into the samples' file why they are not whole."""
    line = json.dumps({"monotonic_ns": time.monotonic_ns(), "problem": problem})
    with (Path(trial.paths["results"]) / FILE).open("a", encoding="utf-8") as out:
        out.write(f"\n{line}\n")  # a killed sampler may have left a part of a line


def main(file: Path, pid: int, interval_s: float, idle_s: float, gpu: str | None) -> None:
    """Sample until standard input ends, and once after that."""
    sources: list[Callable[[], Sample]] = []
    if gpu is not None:
        sources.append(Gpu(gpu))  # first, so that the energy counter is read at the sample's time
    rapl = Rapl()
    if rapl.domains:
        sources.append(rapl)
    sources.append(Processes(pid))
    idle_until = time.monotonic() + (idle_s if len(sources) > 1 else 0)
    ready = ended = False
    with file.open("a", encoding="utf-8", buffering=1) as out:
        while True:
            sample: Sample = {"monotonic_ns": time.monotonic_ns()}
            for source in sources:
                sample.update(source())
            sample["sampler_s"] = time.process_time()  # the CPU time of the sampler itself
            out.write(json.dumps(sample) + "\n")
            if ended:
                return
            if not ready and time.monotonic() >= idle_until:
                print(READY, flush=True)
                ready = True
            ended = bool(select.select([sys.stdin], [], [], interval_s)[0])


class Processes:
    """The load of the worker with its children, and of the whole machine."""

    def __init__(self, pid: int) -> None:
        try:
            import psutil
        except ImportError:
            psutil = None
        self._psutil = psutil
        self._worker: Any = psutil.Process(pid) if psutil else None
        self._tree: list[Any] = []
        self._searched_s = -FIND_CHILDREN_S

    def __call__(self) -> Sample:
        """`rss_bytes` and `cpu_s` of the worker's tree, `own_rss_bytes` of the worker alone.

        `busy_s` and `steal_s` are those of the machine.
        """
        if self._psutil is None:
            unknown = ("rss_bytes", "own_rss_bytes", "cpu_s", "busy_s", "steal_s")
            return dict.fromkeys(unknown)
        self._find_children()
        found = [self._one(each) for each in self._tree]
        known = [each for each in found if each]
        own = found[0]  # of the worker alone; the others are its children
        machine = self._psutil.cpu_times()
        # A sum of busy times, because Linux's idle and waiting times may decrease.
        busy = ("user", "nice", "system", "irq", "softirq")  # the first two include guests
        return {
            "rss_bytes": sum(rss for rss, _ in known) if known else None,
            "own_rss_bytes": own[0] if own else None,
            "cpu_s": sum(cpu_s for _, cpu_s in known) if known else None,
            "busy_s": sum(getattr(machine, name, 0.0) for name in busy),
            "steal_s": getattr(machine, "steal", None),
        }

    def _find_children(self) -> None:
        """Update the worker's process tree, unless it was updated a short time ago."""
        if time.monotonic() - self._searched_s < FIND_CHILDREN_S:
            return
        self._searched_s = time.monotonic()
        children = _value(lambda: self._worker.children(recursive=True), self._psutil.Error) or []
        self._tree = [self._worker, *(each for each in children if each.pid != os.getpid())]

    def _one(self, process: Any) -> tuple[int, float] | None:
        """The resident bytes and CPU seconds of a process; None where it has ended."""

        def read() -> tuple[int, float]:
            with process.oneshot():
                # With the time of its ended children, else the tree's time would decrease.
                return process.memory_info().rss, sum(process.cpu_times()[:4])

        return _value(read, self._psutil.Error)


class Rapl:
    """The energy of all CPU packages, from counters that restart at a known value."""

    def __init__(self) -> None:
        self.domains = self._packages()
        self._last = {each: self._read(each) for each in self.domains}
        self._total_j = 0.0

    @staticmethod
    def _packages() -> list[Path]:
        """One readable domain of each package.

        A package may be in intel-rapl and in intel-rapl-mmio: the same energy, by another register.
        """
        found: dict[str, Path] = {}
        for domain in sorted(RAPL.glob("*:*"), reverse=True):  # intel-rapl before intel-rapl-mmio
            try:
                name = (domain / "name").read_text(encoding="ascii").strip()
                if name.startswith("package") and Rapl._read(domain) >= 0:
                    found.setdefault(name, domain)
            except (OSError, ValueError):
                continue
        return [*found.values()]

    @staticmethod
    def _read(domain: Path) -> int:
        return int((domain / "energy_uj").read_text(encoding="ascii"))

    def __call__(self) -> Sample:
        """`rapl_j` since the first sample; null after a counter has become unreadable."""
        try:
            for domain in self.domains:
                now, last = self._read(domain), self._last[domain]
                if now < last:
                    last -= int((domain / "max_energy_range_uj").read_text(encoding="ascii"))
                self._total_j += (now - last) / 1e6
                self._last[domain] = now
        except (OSError, ValueError):
            self._total_j = float("nan")
        return {"rapl_j": self._total_j if self._total_j == self._total_j else None}


class Gpu:
    """One GPU, read by NVML and found by its UUID: CUDA's number may differ from NVML's."""

    def __init__(self, number: str) -> None:
        self._problem: str | None = None
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception as error:  # a missing package or driver, or a driver that does not answer
            pynvml = None
            self._problem = f"NVML cannot be used: {error}"
        self._nvml = pynvml
        self.uuid: str | None = None
        self._handle = self._find(int(number)) if pynvml else None
        if pynvml and self._handle is None:
            self._problem = f"NVML does not find the GPU that CUDA numbers {number}"
        # A MIG slice has a memory of its own; clocks and temperature are those of its board, and
        # energy and utilization are unknown, because the board's are those of all its slices.
        self._slice = bool(self.uuid and self.uuid.startswith("MIG-"))
        self._board = self._handle
        if self._slice:
            self._board = self._read(
                lambda: pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self._handle)
            )

    def _find(self, number: int) -> Any:
        """The handle of CUDA's device `number` among those in CUDA_VISIBLE_DEVICES; sets `uuid`.

        The order is NVML's where CUDA_DEVICE_ORDER is PCI_BUS_ID, as it is for workers.
        """
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else [str(i) for i in range(number + 1)]
        if number >= len(names):
            return None
        name = names[number].strip()
        handles = [self._at(int(name))] if name.isdigit() else self._all(name)
        for handle in handles:
            uuid = self._uuid(handle)
            if uuid and (name.isdigit() or uuid.startswith(name)):
                self.uuid = uuid
                return handle
        return None

    def _all(self, name: str) -> Iterator[Any]:
        """The device with this UUID, then all devices."""
        for text in (name, name.encode()):  # older packages take bytes
            yield self._call("nvmlDeviceGetHandleByUUID", text)
        for index in range(min(self._call("nvmlDeviceGetCount") or 0, MOST_GPUS)):
            yield self._at(index)

    def _at(self, index: int) -> Any:
        """The device with this number; of a board that MIG divides, its first slice."""
        nvml = self._nvml
        board = self._read(lambda: nvml.nvmlDeviceGetHandleByIndex(index))
        mode = self._read(lambda: nvml.nvmlDeviceGetMigMode(board))
        if not mode or not mode[0]:
            return board
        count = self._read(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(board)) or 0
        for place in range(min(count, MOST_GPUS)):
            found = self._call("nvmlDeviceGetMigDeviceHandleByIndex", board, place)
            if found is not None:
                return found
        return board

    def _uuid(self, handle: Any) -> str | None:
        if handle is None:
            return None
        uuid = self._read(lambda: self._nvml.nvmlDeviceGetUUID(handle))
        # Older packages return bytes.
        return uuid.decode("utf-8", "replace") if isinstance(uuid, bytes) else uuid

    def __call__(self) -> Sample:
        nvml, handle = self._nvml, self._handle
        if handle is None:
            return {"gpu": {"uuid": None, "problem": self._problem}}
        board = self._board
        energy_mj = power_mw = rates = None
        if not self._slice:
            energy_mj = self._number(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
            power_mw = self._number(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
            rates = self._number(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        return {
            "gpu": {
                "uuid": self.uuid,
                "used_bytes": self._number(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used),
                "energy_j": energy_mj / 1e3 if energy_mj is not None else None,
                "power_w": power_mw / 1e3 if power_mw is not None else None,
                "utilisation": rates / 100 if rates is not None else None,
                "sm_clock_mhz": self._number(
                    lambda: nvml.nvmlDeviceGetClockInfo(board, nvml.NVML_CLOCK_SM)
                ),
                "temperature_c": self._number(
                    lambda: nvml.nvmlDeviceGetTemperature(board, nvml.NVML_TEMPERATURE_GPU)
                ),
                "throttle": self._throttle(),
                "processes": self._number(
                    lambda: len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
                ),
            }
        }

    def _throttle(self) -> int | None:
        """NVML's bits for the reasons why the clocks are not higher."""
        nvml, handle = self._nvml, self._board
        reasons = self._number(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if reasons is None:  # older drivers have an older name
            reasons = self._number(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return reasons

    def _call(self, name: str, *arguments: Any) -> Any:
        """The result of one of NVML's functions; None where it fails or does not exist."""
        return self._read(lambda: getattr(self._nvml, name)(*arguments))

    def _number(self, query: Callable[[], Any]) -> int | None:
        """All of NVML's values are whole numbers; anything else is unknown."""
        value = self._read(query)
        return value if isinstance(value, int) else None

    def _read(self, query: Callable[[], T]) -> T | None:
        # Not only NVMLError: an old package lacks a function, or takes another type.
        return _value(query, Exception)


def _value(query: Callable[[], T], error: type[Exception]) -> T | None:
    """The result of `query`; None where it raises `error`."""
    try:
        return query()
    except error:
        return None


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        float(sys.argv[3]),
        float(sys.argv[4]),
        sys.argv[5] if sys.argv[5:] else None,
    )
