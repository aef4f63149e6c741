"""OpenVINO on a CPU: a model compiled for the lowest latency, only for inference.

The compilation folds batch norms into convolutions and removes dropout. The hint THROUGHPUT needs
several requests at the same time (AsyncInferQueue), but a call of `predict` is one request. So all
scenarios have the hint LATENCY, in which all threads compute one request.
"""

from __future__ import annotations

import sys
from typing import Any

# OpenVINO reports its import to a server on the internet. Where this package is missing it takes a
# substitute of its own, which sends nothing.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]

import openvino  # noqa: E402

from ... import onnx_model  # noqa: E402
from ...protocol import Array, Trial, Weights  # noqa: E402

LAYOUT = onnx_model.LAYOUT
# The properties that influence numbers or speed.
PROPERTIES = (
    "PERFORMANCE_HINT",
    "EXECUTION_MODE_HINT",
    "INFERENCE_PRECISION_HINT",
    "NUM_STREAMS",
    "ENABLE_CPU_PINNING",
    "ENABLE_HYPER_THREADING",
)


def version() -> str:
    return str(openvino.__version__).partition("-")[0]


def device(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from the compiled model."""
    return {
        "name": trial.device,
        "threads": int(Predictor.compiled.get_property("INFERENCE_NUM_THREADS")),
        "kind": None,
        "tf32": False,
        "preallocates": False,
        "policy": {name: str(Predictor.compiled.get_property(name)) for name in PROPERTIES},
    }


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}


class Predictor:
    compiled: openvino.CompiledModel  # the process's only model, for `device`

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        if trial.device != "cpu":
            raise RuntimeError("the suite has no CUDA for OpenVINO, which is for Intel's devices")
        if trial.precision != "float32":
            raise NotImplementedError(f"OpenVINO module has no precision {trial.precision!r}")
        core = openvino.Core()
        model = core.read_model(onnx_model.of(trial, weights, statistics).SerializeToString())
        Predictor.compiled = core.compile_model(model, "CPU", _options(trial))
        self._request = Predictor.compiled.create_infer_request()

    def predict(self, inputs: Array) -> Array:
        self._request.set_input_tensor(openvino.Tensor(inputs, shared_memory=True))
        self._request.infer(share_outputs=True)  # else it would return a copy of the outputs
        # A copy, because the next call computes into the same tensor.
        logits: Array = self._request.get_output_tensor().data.copy()
        return logits


def _options(trial: Trial) -> dict[str, Any]:
    options: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        # By default it may be bfloat16 or float16 on a CPU with instructions for them.
        "INFERENCE_PRECISION_HINT": "f32",
    }
    if trial.threads is not None:
        options["INFERENCE_NUM_THREADS"] = trial.threads
    return options
