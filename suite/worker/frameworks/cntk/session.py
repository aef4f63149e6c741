"""CNTK: its trainer in a process of Python 3.6, which does the steps of a block in one request."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...child import RSS_PEAK
from ...data import DEVICE_BATCHES
from ...protocol import SLOTS, Array, State, Trial, Weights
from . import process

LAYOUT = "NCHW"
BATCHES = DEVICE_BATCHES + 4  # in the shared memory; steps wait for their request in the others
_cntk = process.start()  # so that the duration of the import has CNTK's


def version() -> str:
    return str(_cntk.ask("facts")["cntk"])


def device(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from CNTK."""
    facts = _cntk.ask("facts")
    return {
        "name": trial.device,
        "threads": facts["threads"],
        "kind": None,
        "tf32": False,
        "preallocates": False,
        "policy": {name: facts[name] for name in ("python", "numpy")},
    }


def memory(trial: Trial) -> dict[str, Any]:
    """The largest resident size of CNTK's process, which is added to that of this one."""
    return {RSS_PEAK: _cntk.ask("facts")["rss_peak_bytes"]}


class Batch:
    """A place in the shared memory, which is free again when nothing refers to the batch."""

    def __init__(self, place: int, free: list[int]) -> None:
        self.place = place
        self._free = free

    def __del__(self) -> None:
        self._free.append(self.place)


class Session:
    """Steps are collected until a result is needed, or all batches are in use."""

    in_child = True

    def __init__(self, trial: Trial, weights: Weights) -> None:
        optimizer = trial.optimizer
        if trial.device != "cpu":
            raise RuntimeError("CNTK computes here without CUDA")
        if optimizer["name"] not in SLOTS:
            raise NotImplementedError(f"CNTK module has no optimizer {optimizer['name']!r}")
        self._slots = SLOTS[optimizer["name"]]
        self._shapes = _shapes(trial.parameters)
        self._statistic_shapes = _shapes(trial.statistics)
        samples, classes = trial.rank_batch_size, trial.architecture["classes"]
        arrays, places = _cntk.share(
            {
                "values": (_size(self._shapes),),
                "statistics": (_size(self._statistic_shapes),),
                "logits": (samples, classes),
                "inputs": (BATCHES, samples, *trial.architecture["input_shape"]),
                "targets": (BATCHES, samples, classes),
            }
        )
        self._values, self._logits = arrays["values"], arrays["logits"]
        self._statistics = arrays["statistics"]
        self._inputs, self._targets = arrays["inputs"], arrays["targets"]
        self._rows = np.arange(samples)
        self._free = list(range(BATCHES))
        self._waiting: list[Batch] = []
        self._values[...] = np.concatenate([weights[name].ravel() for name in self._shapes])
        _cntk.ask(
            "build",
            places=places,
            layers=trial.layers,
            parameters=[*self._shapes.items()],
            statistics=[*self._statistic_shapes],
            optimizer=optimizer,
            threads=trial.threads,
            seed=trial.seed,
        )

    def put(self, inputs: Any, labels: Any) -> Batch:
        if not self._free:
            self.synchronize()
        batch = Batch(self._free.pop(), self._free)
        self._inputs[batch.place] = inputs
        targets = self._targets[batch.place]
        targets[...] = 0
        targets[self._rows, labels] = 1
        return batch

    def train_step(self, batch: Batch) -> None:
        self._waiting.append(batch)

    def synchronize(self) -> None:
        if self._waiting:
            _cntk.ask("train", batches=[batch.place for batch in self._waiting])
            self._waiting.clear()

    def read(self, loss: None) -> float:
        return float(self._ask("loss"))

    def logits(self, inputs: Array) -> Array:
        self._ask("infer", batch=self.put(inputs, 0).place)
        return self._logits.copy()

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        self._ask("differentiate", batch=self.put(inputs, labels).place)
        return self._logits.copy(), _named(self._values, self._shapes)

    def weights(self) -> Weights:
        return self._read("weights")

    def statistics(self) -> Weights:
        self._ask("read_statistics")
        return _named(self._statistics, self._statistic_shapes)

    def optimizer_state(self) -> dict[str, Weights]:
        return {slot: self._read(slot) for slot in self._slots}

    def step_count(self) -> int:
        return int(self._ask("steps"))

    def restore(self, state: State) -> None:
        raise NotImplementedError("CNTK is not a reference framework")

    def _read(self, name: str) -> Weights:
        self._ask("read", name=name)
        return _named(self._values, self._shapes)

    def _ask(self, work: str, **arguments: Any) -> Any:
        self.synchronize()
        return _cntk.ask(work, **arguments)


def _shapes(named: list[dict[str, Any]]) -> dict[str, tuple[int, ...]]:
    return {each["name"]: tuple(each["shape"]) for each in named}


def _size(shapes: dict[str, tuple[int, ...]]) -> int:
    return sum(map(math.prod, shapes.values()))


def _named(values: Array, shapes: dict[str, tuple[int, ...]]) -> Weights:
    """A copy of shared values that lie one after the other, by their names."""
    stops = np.cumsum([math.prod(shape) for shape in shapes.values()], dtype=int)
    parts = np.split(values.copy(), stops[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts)}
