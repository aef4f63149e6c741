"""PaddlePaddle for inference: eager, or as a program of its inference engine, with oneDNN."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial

import paddle
from paddle import inference, nn

from ...layouts import input_form
from ...protocol import Array, Trial, Weights
from . import device as paddle_device
from .layers import build, parameter_of
from .session import LAYOUT, device, memory, version

__all__ = ["LAYOUT", "Predictor", "device", "memory", "version"]


class Predictor:
    """A model in its inference form."""

    def __init__(self, trial: Trial, weights: Weights, statistics: Weights) -> None:
        if trial.dtype == "float64":
            raise NotImplementedError("PaddlePaddle is not a reference framework")
        paddle_device.prepare(trial)
        paddle.set_default_dtype(trial.dtype)
        model = _loaded(trial, weights, statistics)
        model.eval()
        self._logits = _program(model, trial) if trial.variant == "static" else _eager(model)

    def predict(self, inputs: Array) -> Array:
        """The logits (batch_size, classes) of one batch, from and to host memory."""
        return self._logits(inputs)


def _loaded(trial: Trial, weights: Weights, statistics: Weights) -> nn.Layer:
    """The model with its weights and the running statistics of its batch norms."""
    made: dict[str, nn.Layer] = {}
    model = build(trial, made)
    for name, values in weights.items():
        parameter, transposed = parameter_of(made, name)
        parameter.set_value(values.T if transposed else values)
    for name, values in statistics.items():
        layer, moment = name.split(".")
        made[layer].moments()[moment].set_value(values)
    return model


def _eager(model: nn.Layer) -> Callable[[Array], Array]:
    def logits(inputs: Array) -> Array:
        with paddle.no_grad():
            values: Array = model(paddle.to_tensor(inputs)).numpy()
        return values

    return logits


def _leaky_relu(slope: float, values: paddle.Tensor) -> paddle.Tensor:
    return paddle.where(values > 0, values, slope * values)


def _program(model: nn.Layer, trial: Trial) -> Callable[[Array], Array]:
    """The model as a function of the inference engine, which folds batch norms."""
    shape, dtype = input_form(trial, LAYOUT)
    for layer in model.sublayers():
        if isinstance(layer, nn.LeakyReLU):
            # The engine ends with SIGSEGV where it fuses its own with a convolution (3.3.1).
            layer.forward = partial(_leaky_relu, layer._negative_slope)
    # The engine takes a model only from files.
    with tempfile.TemporaryDirectory() as folder:
        form = paddle.static.InputSpec(list(shape), dtype)
        paddle.jit.save(model, f"{folder}/model", input_spec=[form])
        config = inference.Config(f"{folder}/model.json", f"{folder}/model.pdiparams")
        config.disable_glog_info()
        config.enable_mkldnn()  # PaddlePaddle's name of oneDNN
        if any(layer["kind"] == "window_attention" for layer in trial.leaves()):
            # It fuses a reshape to six axes with the operator before, and then fails (3.3.1).
            config.delete_pass("operator_reshape_onednn_fuse_pass")
        if trial.threads is not None:
            config.set_cpu_math_library_num_threads(trial.threads)
        program = inference.create_predictor(config)
    to_program = program.get_input_handle(program.get_input_names()[0])
    from_program = program.get_output_handle(program.get_output_names()[0])

    def logits(inputs: Array) -> Array:
        to_program.copy_from_cpu(inputs)
        program.run()
        values: Array = from_program.copy_to_cpu()
        return values

    return logits
