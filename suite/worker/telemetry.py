"""Samples of what a worker and its machine are doing, taken by a process of its own.

`python -m suite.worker.telemetry FILE PID INTERVAL_S IDLE_S [GPU]` appends one JSON object a line
to FILE, with the time on the monotonic clock that all processes of a machine share, until its
standard input ends. It says `ready` when the worker may begin: where power can be read, it takes
IDLE_S of samples of the idle machine first. GPU is what CUDA calls the device: its number.

Needs psutil and pynvml; what cannot be read is null.
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
LOOK_ROUND_S = 2.0  # how often the worker's children are looked for, which costs most
RAPL = Path("/sys/class/powercap")

T = TypeVar("T")
Sample = dict[str, Any]


@contextmanager
def sampling(trial: Trial) -> Iterator[None]:
    """Samples are taken while the block lasts, if the trial wants them and times a model.

    Not where workers take turns: samples are too far apart to tell one's blocks from the others'.
    """
    interval_s = trial.measure.get("sample_s", 0)
    if trial.mode in ("parity", "limit") or "turns" in trial.paths or not interval_s:
        yield
        return
    device, _, number = trial.device.partition(":")
    command = [sys.executable, "-m", __name__, str(Path(trial.paths["results"]) / FILE)]
    command += [str(os.getpid()), str(interval_s), str(trial.measure.get("idle_s", 0))]
    command += [number or "0"] if device == "cuda" else []
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    try:
        process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def main(file: Path, pid: int, interval_s: float, idle_s: float, gpu: str | None) -> None:
    """Sample until standard input ends, and once more then."""
    sources: list[Callable[[], Sample]] = []
    if gpu is not None:
        sources.append(Gpu(gpu))  # energy first: the sample's time must be the counter's
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
            sample["sampler_s"] = time.process_time()  # what all this has cost so far
            out.write(json.dumps(sample) + "\n")
            if ended:
                return
            if not ready and time.monotonic() >= idle_until:
                print(READY, flush=True)
                ready = True
            ended = bool(select.select([sys.stdin], [], [], interval_s)[0])


class Processes:
    """The worker and its children, and beside them the whole machine."""

    def __init__(self, pid: int) -> None:
        try:
            import psutil
        except ImportError:
            psutil = None
        self._psutil = psutil
        self._worker: Any = psutil.Process(pid) if psutil else None
        self._tree: list[Any] = []
        self._looked_s = -LOOK_ROUND_S

    def __call__(self) -> Sample:
        """`rss_bytes` and `cpu_s` of the worker's tree, `busy_s` and `steal_s` of the machine."""
        if self._psutil is None:
            return {"rss_bytes": None, "cpu_s": None, "busy_s": None, "steal_s": None}
        self._look_round()
        known = [each for each in map(self._one, self._tree) if each]
        machine = self._psutil.cpu_times()
        # Not all less idle: what Linux says of idle and waiting time may go back.
        busy = ("user", "nice", "system", "irq", "softirq")  # guests are in the first two
        return {
            "rss_bytes": sum(rss for rss, _ in known) if known else None,
            "cpu_s": sum(cpu_s for _, cpu_s in known) if known else None,
            "busy_s": sum(getattr(machine, name, 0.0) for name in busy),
            "steal_s": getattr(machine, "steal", None),
        }

    def _look_round(self) -> None:
        if time.monotonic() - self._looked_s < LOOK_ROUND_S:
            return
        self._looked_s = time.monotonic()
        children = _known(lambda: self._worker.children(recursive=True), self._psutil.Error) or []
        self._tree = [self._worker, *(each for each in children if each.pid != os.getpid())]

    def _one(self, process: Any) -> tuple[int, float] | None:
        def read() -> tuple[int, float]:
            with process.oneshot():
                # Its dead children's too: else the tree's time would go back when one ends.
                return process.memory_info().rss, sum(process.cpu_times()[:4])

        return _known(read, self._psutil.Error)


class Rapl:
    """The energy of all CPU packages, from counters that begin again at a known value."""

    def __init__(self) -> None:
        self.domains = [each for each in RAPL.glob("*:*") if self._readable(each)]
        self._last = {each: self._read(each) for each in self.domains}
        self._total_j = 0.0

    @staticmethod
    def _readable(domain: Path) -> bool:
        try:
            name = (domain / "name").read_text(encoding="ascii")
            return name.startswith("package") and Rapl._read(domain) >= 0
        except (OSError, ValueError):
            return False

    @staticmethod
    def _read(domain: Path) -> int:
        return int((domain / "energy_uj").read_text(encoding="ascii"))

    def __call__(self) -> Sample:
        """`rapl_j` since the first sample; null from when a counter cannot be read any more."""
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
    """One GPU by NVML, found by its UUID: CUDA's numbers may be others than NVML's."""

    def __init__(self, number: str) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception:  # no such package, no driver, or one that does not answer
            pynvml = None
        self._nvml = pynvml
        self.uuid = self._uuid(int(number)) if pynvml else None
        self._handle = None
        if self.uuid:
            self._handle = self._ask(lambda: pynvml.nvmlDeviceGetHandleByUUID(self.uuid))

    def _uuid(self, number: int) -> str | None:
        """Of CUDA's device `number` among those that CUDA_VISIBLE_DEVICES lets it see.

        The order is NVML's own where CUDA_DEVICE_ORDER is PCI_BUS_ID, as the worker sets it.
        """
        nvml = self._nvml
        count = self._ask(nvml.nvmlDeviceGetCount) or 0
        uuids = [self._uuid_at(index) for index in range(count)]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else [str(i) for i in range(count)]
        if number >= len(names):
            return None
        name = names[number].strip()
        if name.isdigit():
            return uuids[int(name)] if int(name) < count else None
        return next((uuid for uuid in uuids if uuid and uuid.startswith(name)), None)

    def _uuid_at(self, index: int) -> str | None:
        nvml = self._nvml
        return self._ask(
            lambda: str(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index)))
        )

    def __call__(self) -> Sample:
        nvml, handle = self._nvml, self._handle
        if handle is None:
            return {"gpu": None}
        energy_mj = self._ask(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        power_mw = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        rates = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        processes = self._ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return {
            "gpu": {
                "uuid": self.uuid,
                "used_bytes": memory.used if memory else None,
                "energy_j": energy_mj / 1e3 if energy_mj is not None else None,
                "power_w": power_mw / 1e3 if power_mw is not None else None,
                "utilisation": rates.gpu / 100 if rates else None,
                "sm_clock_mhz": self._ask(
                    lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
                ),
                "temperature_c": self._ask(
                    lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
                ),
                "throttle": self._throttle(),
                "processes": len(processes) if processes is not None else None,
            }
        }

    def _throttle(self) -> int | None:
        """NVML's bits for why the clocks are not higher; older drivers have an older name."""
        nvml, handle = self._nvml, self._handle
        reasons = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if reasons is None:
            reasons = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return reasons

    def _ask(self, question: Callable[[], T]) -> T | None:
        return _known(question, self._nvml.NVMLError)


def _known(question: Callable[[], T], refusal: type[Exception]) -> T | None:
    try:
        return question()
    except refusal:
        return None


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        float(sys.argv[3]),
        float(sys.argv[4]),
        sys.argv[5] if sys.argv[5:] else None,
    )
