"""ONNX Runtime on a CPU: a session with all graph optimizations, only for inference.

They fold batch norms into convolutions and remove dropout.
"""

from __future__ import annotations

from typing import Any

import onnxruntime
from onnxruntime import ExecutionMode, GraphOptimizationLevel

from ... import onnx_model
from ...onnx_graph import INPUT
from ...protocol import Array, Trial, Weights

LAYOUT = onnx_model.LAYOUT
SPINNING_STOP = "session.force_spinning_stop"


def version() -> str:
    return str(onnxruntime.__version__)


def device(trial: Trial) -> dict[str, Any]:
    """The settings in force, read back from the session."""
    options = Predictor.session.get_session_options()
    return {
        "name": trial.device,
        "threads": options.intra_op_num_threads,
        "kind": None,
        "tf32": False,
        "preallocates": False,
        "policy": {
            "providers": Predictor.session.get_providers(),
            "graph_optimization_level": options.graph_optimization_level.name,
            "execution_mode": options.execution_mode.name,
            "inter_op_num_threads": options.inter_op_num_threads,
            SPINNING_STOP: options.get_session_config_entry(SPINNING_STOP),
        },
    }


def memory(trial: Trial) -> dict[str, Any]:
    """Nothing: on a CPU there is no memory but the process's."""
    return {}


class Predictor:
    session: onnxruntime.InferenceSession  # of the process's only model, for `device`

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        if trial.device != "cpu":
            raise RuntimeError("the package onnxruntime is built without CUDA")
        if trial.precision != "float32":
            raise NotImplementedError(f"ONNX Runtime module has no precision {trial.precision!r}")
        model = onnx_model.of(trial, weights, statistics).SerializeToString()
        session = onnxruntime.InferenceSession(
            model, _options(trial), providers=["CPUExecutionProvider"]
        )
        Predictor.session = session
        self._run = session.run
        self._outputs = [output.name for output in session.get_outputs()]

    def predict(self, inputs: Array) -> Array:
        # The session reads the caller's memory. A binding of inputs and outputs would save no copy:
        # it is for devices with memory of their own.
        logits: Array = self._run(self._outputs, {INPUT: inputs})[0]
        return logits


def _options(trial: Trial) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    # Without a number, ONNX Runtime takes a thread for each core of the machine and pins it there,
    # also to CPUs that this process may not use.
    options.intra_op_num_threads = trial.threads or len(trial.cpus)
    options.inter_op_num_threads = 1
    options.execution_mode = ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
    # After a call, threads wait for the next one by spinning. Where queries come at random times,
    # they would take a core from the thread that receives them.
    options.add_session_config_entry(SPINNING_STOP, str(int(trial.scenario == "server")))
    return options
