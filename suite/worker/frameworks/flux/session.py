"""Flux: a chain in Julia, whose steps are calls from this process."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from ...protocol import SLOTS, Array, State, Trial, Weights
from .julia import Julia, address
from .layers import model_of

LAYOUT = "NCHW"
PARAMETERS, GRADIENTS, FIRST_SLOT = 1, 2, 3  # what `Work.read_values` reads
FLOATS, INTEGERS = ctypes.c_void_p, ctypes.c_void_p
_julia: list[Julia] = []  # one in a process


def julia(trial: Trial) -> Julia:
    """The process's Julia, started now; RuntimeError where the device is no CPU."""
    if trial.device != "cpu":
        raise RuntimeError("Flux computes here without CUDA")
    if not _julia:
        _julia.append(Julia(trial.threads))
    return _julia[0]


def version() -> str:
    if not _julia:
        _julia.append(Julia(None))
    return _julia[0].text("Work.version()")


def device(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from Julia."""
    found = julia(trial)
    return {
        "name": trial.device,
        "threads": trial.threads,
        "kind": None,
        "tf32": False,
        "preallocates": False,
        "policy": {
            "julia": found.text("VERSION"),
            "julia_threads": int(found.text("Threads.nthreads()")),
            "blas": found.text("Work.LinearAlgebra.BLAS.vendor()"),
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}


class Session:
    """The names and order of parameters are the trial's; Julia numbers them from 1."""

    def __init__(self, trial: Trial, weights: Weights) -> None:
        optimizer = trial.optimizer
        if optimizer["name"] not in SLOTS:
            raise NotImplementedError(f"Flux module has no optimizer {optimizer['name']!r}")
        self._julia = julia(trial)
        self._classes = trial.architecture["classes"]
        self._batch_size = trial.rank_batch_size
        self._slots = SLOTS[optimizer["name"]]
        model = model_of(trial, weights)
        self._names = list(model.paths)
        self._shapes = {name: weights[name].shape for name in self._names}
        self._convolutions = {name for name in self._names if weights[name].ndim == 4}
        shape = *reversed(trial.architecture["input_shape"]), self._batch_size
        # A recipe that Flux lacks is None or false here, and Julia's update reads no such key.
        options = ", ".join(
            f":{name} => {float(value)}"
            for name, value in optimizer.items()
            if name != "name" and value is not None
        )
        self._julia.run(
            f"Work.start({model.code}, [{', '.join(model.paths.values())}],"
            f" ({', '.join(map(str, shape))},), {self._classes}, :{optimizer['name']},"
            f" {optimizer['learning_rate']}, Dict({options}), {len(self._slots)})"
        )
        single = ctypes.c_float
        self._step = self._julia.function(
            "@cfunction(Work.train_step, Float32, (Ptr{Float32}, Ptr{Int32}))",
            single,
            FLOATS,
            INTEGERS,
        )
        self._differentiate = self._julia.function(
            "@cfunction(Work.gradients, Float32, (Ptr{Float32}, Ptr{Int32}, Ptr{Float32}))",
            single,
            FLOATS,
            INTEGERS,
            FLOATS,
        )
        self._infer = self._julia.function(
            "@cfunction(Work.infer, Float32, (Ptr{Float32}, Ptr{Float32}))", single, FLOATS, FLOATS
        )
        self._read = self._julia.function(
            "@cfunction(Work.read_values, Float32, (Int32, Int32, Ptr{Float32}))",
            single,
            ctypes.c_int32,
            ctypes.c_int32,
            FLOATS,
        )

    def put(self, inputs: Any, labels: Any) -> tuple[Array, Array]:
        return np.ascontiguousarray(inputs), np.ascontiguousarray(labels)

    def train_step(self, batch: tuple[Array, Array]) -> float:
        inputs, labels = batch
        return self._checked(self._step(address(inputs), address(labels)))

    def synchronize(self) -> None:
        """On the CPU every step is done when it returns."""

    def read(self, loss: float) -> float:
        return loss

    def logits(self, inputs: Array) -> Array:
        inputs, logits = np.ascontiguousarray(inputs), self._new_logits()
        self._checked(self._infer(address(inputs), address(logits)))
        return logits

    def gradients(self, inputs: Array, labels: Array) -> tuple[Array, Weights]:
        inputs, labels = self.put(inputs, labels)
        logits = self._new_logits()
        self._checked(self._differentiate(address(inputs), address(labels), address(logits)))
        return logits, self._all(GRADIENTS)

    def weights(self) -> Weights:
        return self._all(PARAMETERS)

    def statistics(self) -> Weights:
        return {}

    def optimizer_state(self) -> dict[str, Weights]:
        return {slot: self._all(FIRST_SLOT + number) for number, slot in enumerate(self._slots)}

    def step_count(self) -> int:
        return int(self._julia.text("Work.steps()"))

    def restore(self, state: State) -> None:
        raise NotImplementedError("Flux is not a reference framework")

    def _new_logits(self) -> Array:
        return np.empty((self._batch_size, self._classes), np.float32)

    def _all(self, kind: int) -> Weights:
        """The parameters, their gradients or a slot, in the canonical layout."""
        return {name: self._one(kind, number, name) for number, name in enumerate(self._names, 1)}

    def _one(self, kind: int, number: int, name: str) -> Array:
        flat = np.empty(math.prod(self._shapes[name]), np.float32)
        self._checked(self._read(kind, number, address(flat)))
        if name in self._convolutions:  # Julia has it with both of its axes flipped
            return flat.reshape(self._shapes[name])[:, :, ::-1, ::-1]
        # A matrix (out, in) is stored by columns in Julia.
        return flat.reshape(self._shapes[name][::-1]).T

    def _checked(self, value: float) -> float:
        """The value; RuntimeError with Julia's own message where its function failed."""
        if math.isnan(value) and (problem := self._julia.text("Work.problem()")):
            raise RuntimeError(f"Julia: {problem.splitlines()[0]}")
        return value
